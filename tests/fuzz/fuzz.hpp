// What a fuzz target gives to the driver (driver.cpp). The name of the entry is libFuzzer's, which can take its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

// One input. Ends the process where something is wrong; the sanitizers do so for memory and undefined behaviour.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Inputs that are well formed, to start from.
std::vector<std::string> fuzz_seeds();

#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

// A folder in memory for one input at a time. scripts/fuzz.sh removes those of targets that crash.
struct Folder {
  std::string path = place() + "/" + std::to_string(getpid());
  Folder() {
    std::filesystem::create_directories(place());
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }

  static std::string place() {
    const char* given = std::getenv("FUZZ_FOLDER");
    return given ? given : "/dev/shm/fuzz";
  }
};
