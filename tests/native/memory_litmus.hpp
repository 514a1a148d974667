#pragma once

#include <cstddef>

namespace model {

// Holds the model to the classic litmus tests: each outcome that C++ allows occurs, and none that it forbids. How many
// tests these were.
size_t check_litmus();

}  // namespace model
