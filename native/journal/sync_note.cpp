// The counters of syncs in a mapped file.
#include "journal/sync_note.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/words.hpp"
#include "journal/segment.hpp"
#include "journal/system_calls.hpp"

namespace relay {
namespace {

// A hash (FNV-1a) of the host's boot id; 0 if the kernel does not provide one.
uint64_t read_boot_id() {
  int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[64];
  ssize_t n = read(fd, text, sizeof text);
  close(fd);
  uint64_t hash = 0xcbf29ce484222325;
  for (ssize_t i = 0; i < n; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 0x100000001b3;
  return n > 0 ? hash : 0;
}

// Read once: each statement to SQLite asks for it.
uint64_t boot_id() {
  static const uint64_t id = read_boot_id();
  return id;
}

}  // namespace

SyncNote::SyncNote(const std::string& file) {
  int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) throw_system("environment", "open note of syncs", file, errno);
  int error = allocate_file(fd, sizeof(Words));
  void* p = error ? MAP_FAILED : mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED && !error) error = errno;
  close(fd);
  if (error) throw_system("environment", "map note of syncs", file, error);
  words_ = static_cast<Words*>(p);
  if (words_->boot != boot_id()) settle();
}

SyncNote::~SyncNote() { munmap(words_, sizeof(Words)); }

SyncNote::Trust SyncNote::judge(const Words& words) {
  if (words.boot != boot_id()) return Trust::all;
  if (words.failed) return Trust::none;
  return words.begun == words.done ? Trust::all : Trust::unknown;
}

SyncNote::Trust SyncNote::trust() const { return judge(*words_); }

SyncNote::Trust SyncNote::of(const std::string& file) {
  int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Trust::all;
  Words words{};
  const bool whole = pread(fd, &words, sizeof words, 0) == static_cast<ssize_t>(sizeof words);
  close(fd);
  return whole ? judge(words) : Trust::all;
}

// Several threads and processes may sync at once.
void SyncNote::begin() { Word::at(&words_->begun).add(1); }

void SyncNote::end() { Word::at(&words_->done).add(1); }

void SyncNote::fail() { Word::at(&words_->failed).set(1); }

void SyncNote::settle() { *words_ = {boot_id(), 0, 0, 0}; }

}  // namespace relay
