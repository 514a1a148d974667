// The SIGBUS handler, and the shared record of unreadable pages.
#include "journal/unreadable.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/words.hpp"

namespace relay {
namespace {

struct Place {
  Word word;  // the segment's base and 1; 0: none
  Word offset;
};
constexpr size_t kPlaces = 64;
constexpr size_t kLine = 4096 + 128;  // of /proc/self/maps
constexpr size_t kDigits = 20;        // of a segment's name

Place* places = nullptr;  // shared by all processes

// The handler calls only async-signal-safe functions.

uint64_t number(const char** p, unsigned radix) {
  uint64_t value = 0;
  for (;; ++*p) {
    unsigned digit = **p >= 'a' ? static_cast<unsigned>(**p - 'a') + 10 : static_cast<unsigned>(**p - '0');
    if (digit >= radix) return value;
    value = value * radix + digit;
  }
}

void leave_word(uint64_t base, uint64_t offset) {
  for (Place* place = places; place != places + kPlaces; ++place) {
    const uint64_t before = place->word.replace(0, base + 1);
    if (before == 0) place->offset.set(offset);
    if (before == 0 || before == base + 1) return;
  }
}

// A line is "begin-end rwxp offset device inode path". True if it contains the address.
bool judge(const char* line, uint64_t address) {
  const char* p = line;
  const uint64_t begin = number(&p, 16);
  const uint64_t end = number(&++p, 16);
  if (address < begin || address >= end) return false;
  p = std::strchr(++p, ' ');
  if (!p) return true;
  const uint64_t mapped = number(&++p, 16);
  const char* name = std::strrchr(p, '/');
  if (!name++) return true;
  p = name;
  const uint64_t base = number(&p, 10);
  if (p == name + kDigits && std::strncmp(p, ".seg", 4) == 0) leave_word(base, mapped + (address - begin));
  return true;
}

void find(uint64_t address) {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char line[kLine], block[1024];
  size_t length = 0;
  bool found = false;
  for (ssize_t n; !found && (n = read(fd, block, sizeof block)) > 0;) {
    for (ssize_t i = 0; i < n && !found; ++i) {
      if (block[i] != '\n') {
        if (length + 1 < kLine) line[length++] = block[i];
        continue;
      }
      line[length] = 0;
      length = 0;
      found = judge(line, address);
    }
  }
  close(fd);
}

void on_bus_error(int, siginfo_t* info, void*) {
  if (info->si_code <= 0) {  // a process sent the signal
    raise(SIGBUS);
    return;
  }
  find(reinterpret_cast<uint64_t>(info->si_addr));  // returning touches the page again, and the process dies
}

}  // namespace

void watch_pages() {
  if (!places) {
    void* p = mmap(nullptr, kPlaces * sizeof(Place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    places = static_cast<Place*>(p);
  }
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
  sigaction(SIGBUS, &action, nullptr);
}

std::optional<uint64_t> unreadable_at(uint64_t base) {
  if (!places) return std::nullopt;
  const Place* found =
      std::find_if(places, places + kPlaces, [&](const Place& place) { return place.word.get() == base + 1; });
  if (found == places + kPlaces) return std::nullopt;
  return found->offset.get();
}

void forget_unreadable(uint64_t base) {
  for (size_t i = 0; places && i < kPlaces; ++i) places[i].word.replace(base + 1, 0);
}

void forget_unreadable() {
  for (size_t i = 0; places && i < kPlaces; ++i) places[i].word.set(0);
}

}  // namespace relay
