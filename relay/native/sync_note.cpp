#include "sync_note.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "segment.hpp"

namespace relay {
namespace {

// Of the host's present life, FNV-1a; 0 where the kernel does not tell.
uint64_t boot_id() {
  int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[64];
  ssize_t n = read(fd, text, sizeof text);
  close(fd);
  uint64_t hash = 0xcbf29ce484222325;
  for (ssize_t i = 0; i < n; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 0x100000001b3;
  return n > 0 ? hash : 0;
}

}  // namespace

std::string SyncNote::path(const std::string& directory) { return directory + "/sync"; }

SyncNote::SyncNote(const std::string& directory) {
  const std::string file = path(directory);
  int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) throw_system("environment", "open note of syncs", file, errno);
  int error = posix_fallocate(fd, 0, sizeof(Words));
  void* p = error ? MAP_FAILED : mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED && !error) error = errno;
  close(fd);
  if (error) throw_system("environment", "map note of syncs", file, error);
  words_ = static_cast<Words*>(p);
  if (trust() == Trust::all) settle();
}

SyncNote::~SyncNote() { munmap(words_, sizeof(Words)); }

SyncNote::Trust SyncNote::judge(const Words& words) {
  if (words.boot != boot_id()) return Trust::all;
  if (words.failed) return Trust::none;
  return words.begun == words.done ? Trust::all : Trust::unknown;
}

SyncNote::Trust SyncNote::trust() const { return judge(*words_); }

SyncNote::Trust SyncNote::of(const std::string& directory) {
  int fd = ::open(path(directory).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Trust::all;
  Words words{};
  const bool whole = pread(fd, &words, sizeof words, 0) == static_cast<ssize_t>(sizeof words);
  close(fd);
  return whole ? judge(words) : Trust::all;
}

void SyncNote::begin() { __atomic_store_n(&words_->begun, words_->begun + 1, __ATOMIC_SEQ_CST); }

void SyncNote::end() { __atomic_store_n(&words_->done, words_->begun, __ATOMIC_SEQ_CST); }

void SyncNote::fail() { __atomic_store_n(&words_->failed, uint64_t{1}, __ATOMIC_SEQ_CST); }

void SyncNote::settle() { *words_ = {boot_id(), 0, 0, 0}; }

}  // namespace relay
