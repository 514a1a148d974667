// A small coverage-guided fuzzer for one target: DRIVER CRASH_FILE SECONDS|COUNTx SEED [KEPT_INPUT...]
//
// First the kept inputs (crashers of old) and the seeds, then mutations of whatever reached new code, or code more often
// than before, until the time or the count is over. An input that takes kPatience seconds of the processor counts as a
// crash. The input under way stands in CRASH_FILE, which is removed at a good end: it is there after a crash. A kept
// file NAME.pack holds many inputs, each behind its size (u32). The target and the core are compiled with
// -fsanitize-coverage=trace-pc, this file is not.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>

#include "fuzz.hpp"

namespace {

constexpr size_t kMap = 1 << 16;
constexpr size_t kLongest = 1 << 16;  // bytes of an input
constexpr time_t kPatience = 30;

uint8_t seen[kMap];
uint8_t reached[kMap];
uintptr_t previous = 0;

struct CrashFile {
  size_t size;
  uint8_t data[kLongest];
};

CrashFile* under_way;
std::mt19937_64 rng;

size_t below(size_t n) { return static_cast<size_t>(rng() % n); }

// Runs the target; true if it reached code that no input before did.
bool run(const std::string& input) {
  under_way->size = input.size();
  std::memcpy(under_way->data, input.data(), input.size());
  std::memset(reached, 0, sizeof reached);
  previous = 0;
  const itimerval patience{{}, {kPatience, 0}};
  setitimer(ITIMER_PROF, &patience, nullptr);
  // A copy of exactly this size, so that a read beyond it is noticed.
  std::vector<uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  bool fresh = false;
  for (size_t i = 0; i < kMap; i++) {
    const auto often = static_cast<uint8_t>(reached[i] ? 1 << (31 - __builtin_clz(reached[i])) : 0);
    if (often & ~seen[i]) {
      seen[i] |= often;
      fresh = true;
    }
  }
  return fresh;
}

void put_number(std::string& s) {
  static const uint64_t kEdges[] = {0, 1, 2, 0x7f, 0x80, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 0x7fff, 0x8000, 0xffff,
                                    0xffffff, 0x7fffffff, 0x80000000, 0xffffffff, ~uint64_t{0} >> 1, ~uint64_t{0}};
  const uint64_t value = kEdges[below(std::size(kEdges))];
  const size_t width = size_t{1} << below(4);
  if (s.size() < width) return;
  std::memcpy(&s[below(s.size() - width + 1)], &value, width);
}

std::string mutated(const std::vector<std::string>& corpus) {
  std::string s = corpus[below(corpus.size())];
  for (size_t times = 1 + below(6); times; times--) {
    const size_t at = s.empty() ? 0 : below(s.size());
    switch (below(8)) {
      case 0:
        if (!s.empty()) s[at] = static_cast<char>(s[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!s.empty()) s[at] = static_cast<char>(rng());
        break;
      case 2:
        put_number(s);
        break;
      case 3:
        s.resize(at);
        break;
      case 4:
        if (!s.empty()) s.erase(at, 1 + below(8));
        break;
      case 5:
        s.insert(at, 1 + below(8), static_cast<char>(rng()));
        break;
      case 6:
        s.insert(at, s.substr(at, 1 + below(32)));
        break;
      default: {
        const std::string& other = corpus[below(corpus.size())];
        if (!other.empty()) s = s.substr(0, at) + other.substr(below(other.size()));
      }
    }
  }
  if (s.size() > kLongest) s.resize(kLongest);
  return s;
}

void unpack(const std::string& pack, std::vector<std::string>* out) {
  uint32_t size = 0;
  for (size_t at = 0; at + sizeof size <= pack.size(); at += sizeof size + size) {
    std::memcpy(&size, &pack[at], sizeof size);
    out->push_back(pack.substr(at + sizeof size, size));
  }
}

CrashFile* map_crash_file(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(CrashFile)) != 0) return nullptr;
  void* mapped = mmap(nullptr, sizeof(CrashFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<CrashFile*>(mapped);
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& count = reached[(here ^ previous) % kMap];
  if (count != 0xff) ++count;
  previous = here >> 1;
}

int main(int argc, char** argv) {
  if (argc < 4 || !(under_way = map_crash_file(argv[1]))) return 2;
  const std::string amount = argv[2];
  const bool counted = amount.back() == 'x';
  const double limit = std::stod(amount);
  rng.seed(std::stoull(argv[3]));
  std::vector<std::string> corpus = fuzz_seeds();
  for (int i = 4; i < argc; i++) {
    std::ifstream file(argv[i], std::ios::binary);
    std::string input(std::istreambuf_iterator<char>(file), {});
    if (std::string_view(argv[i]).substr(std::max<size_t>(std::strlen(argv[i]), 5) - 5) == ".pack") {
      unpack(input, &corpus);
    } else {
      corpus.push_back(std::move(input));
    }
  }
  for (std::string& input : corpus) {
    if (input.size() > kLongest) input.resize(kLongest);
    run(input);
  }
  const auto begin = std::chrono::steady_clock::now();
  uint64_t count = 0;
  for (;; count++) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (counted ? static_cast<double>(count) >= limit : taken.count() >= limit) break;
    std::string input = mutated(corpus);
    if (run(input)) corpus.push_back(std::move(input));
  }
  size_t edges = 0;
  for (uint8_t each : seen) edges += each != 0;
  std::printf("%llu inputs, %zu edges, %zu kept\n", static_cast<unsigned long long>(count), edges, corpus.size());
  unlink(argv[1]);
  return 0;
}
