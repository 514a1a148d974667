// What the exception in flight says, for a wrapper that raises it again in another language.
#pragma once

#include "journal.hpp"

namespace relay {

struct Failure {
  std::string code;  // of relay.errors
  std::string text;
};

// To be called in a catch block.
inline Failure current_failure() {
  try {
    throw;
  } catch (const JournalError& error) {
    return {error.code, error.what()};
  } catch (const std::exception& error) {
    return {"unexpected", error.what()};
  } catch (...) {
    return {"unexpected", "an exception without a text"};
  }
}

}  // namespace relay
