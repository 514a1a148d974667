// Creating, opening and reading of segment files.
#include "journal/segment.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "journal/system_calls.hpp"
#include "journal/unreadable.hpp"

namespace relay {
namespace {

constexpr uint32_t kMagic = 0x4a594c52;  // "RLYJ"
constexpr size_t kCrcAt = 40;
constexpr size_t kFlushedNowAt = 48;

void write_header(uint8_t* p, const Mapping& m) {
  store(p, kMagic);
  store(p + 4, m.version);
  store(p + 8, m.generation);
  store(p + 16, m.base);
  store(p + 24, m.size);
  store(p + 32, m.flushed);
  store(p + kCrcAt, crc32c(Bytes(p, kCrcAt)));
}

// False if the header is damaged. The fields under the CRC have the same offsets in every version.
bool read_header(const uint8_t* p, Mapping* m) {
  if (load<uint32_t>(p) != kMagic || load<uint32_t>(p + kCrcAt) != crc32c(Bytes(p, kCrcAt))) return false;
  m->version = load<uint32_t>(p + 4);
  m->generation = load<uint64_t>(p + 8);
  m->base = load<uint64_t>(p + 16);
  m->size = load<uint64_t>(p + 24);
  m->flushed = load<uint64_t>(p + 32);
  return true;
}

std::string temporary_path(const std::string& directory, uint64_t base) {
  return segment_path(directory, base) + ".new";
}

}  // namespace

void throw_system(const char* code, const std::string& what, const std::string& path, int error) {
  // An operation that fails for lack of disk space or descriptors has lost nothing.
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EROFS) code = "disk_full";
  if (error == EMFILE || error == ENFILE || error == ENOMEM) code = "environment";
  throw JournalError(code, what + ": " + path + ": " + std::string(std::strerror(error)));
}

Mapping::~Mapping() {
  if (data) munmap(data, size);
  if (fd >= 0) close(fd);
}

std::string segment_path(const std::string& directory, uint64_t base) {
  char name[32];
  std::snprintf(name, sizeof name, "/%020llu.seg", static_cast<unsigned long long>(base));
  return directory + name;
}

std::vector<uint64_t> list_segments(const std::string& directory) {
  std::vector<uint64_t> bases;
  DIR* dir = opendir(directory.c_str());
  if (!dir) {
    if (errno == ENOENT) return bases;
    throw_system("journal_lost", "read journal directory", directory, errno);
  }
  while (dirent* entry = readdir(dir)) {
    std::string_view name = entry->d_name;
    if (name.size() != 24 || name.substr(20) != ".seg") continue;
    if (name.find_first_not_of("0123456789") != 20) continue;
    bases.push_back(std::strtoull(entry->d_name, nullptr, 10));
  }
  closedir(dir);
  std::sort(bases.begin(), bases.end());
  return bases;
}

bool header_is_blank(const std::string& directory, uint64_t base) {
  std::string path = segment_path(directory, base);
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_system("journal_lost", "open journal segment", path, errno);
  uint8_t head[kSegmentHeader] = {};
  ssize_t n = pread(fd, head, sizeof head, 0);
  close(fd);
  return n >= 0 && std::all_of(head, head + sizeof head, [](uint8_t b) { return b == 0; });
}

Directory::Directory(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) throw_system("journal_lost", "open journal directory", path, errno);
}

Directory::~Directory() { close(fd_); }

int Directory::sync() const { return sync_folder(fd_); }

uint64_t Mapping::flushed_now() const {
  const uint8_t* word = data + kFlushedNowAt;
  return std::max(flushed, Word::at(word).get());
}

void Mapping::raise_flushed(uint64_t position) const {
  if (position <= flushed_now()) return;
  Word::at(data + kFlushedNowAt).set(position);
}

std::unique_ptr<Mapping> Mapping::open(const std::string& directory, uint64_t base, bool writable) {
  std::string path = segment_path(directory, base);
  if (auto offset = unreadable_at(base))
    throw JournalError("journal_corrupt", "open journal segment: " + path + ": what stands at offset " +
                                              std::to_string(*offset) +
                                              " cannot be read: the file was cut off, or its disk fails");
  auto m = std::make_unique<Mapping>();
  m->fd = ::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (m->fd < 0) throw_system("journal_lost", "open journal segment", path, errno);
  uint8_t head[kSegmentHeader];
  struct stat st{};
  const bool read = pread(m->fd, head, sizeof head, 0) == static_cast<ssize_t>(sizeof head) && fstat(m->fd, &st) == 0 &&
                    read_header(head, m.get());
  if (read && m->version > kVersion)
    throw JournalError("newer_format", "open journal segment: " + path + ": it is of format " +
                                           std::to_string(m->version) + ", this release knows up to " +
                                           std::to_string(kVersion));
  if (read && m->version && m->base == base && m->size != static_cast<uint64_t>(st.st_size))
    throw JournalError("journal_corrupt", "open journal segment: " + path + ": it has " + std::to_string(st.st_size) +
                                              " bytes instead of " + std::to_string(m->size));
  if (!read || !m->version || m->base != base)
    throw JournalError("journal_corrupt", "open journal segment: " + path + ": its header is damaged");
  void* p = mmap(nullptr, m->size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, m->fd, 0);
  if (p == MAP_FAILED) throw_system("journal_lost", "map journal segment", path, errno);
  m->data = static_cast<uint8_t*>(p);
  if (!writable) {  // a read-only mapping works without a descriptor: a long history uses none
    close(m->fd);
    m->fd = -1;
  }
  return m;
}

std::unique_ptr<Mapping> Mapping::create(const std::string& directory, uint64_t generation, uint64_t base,
                                         uint64_t size, uint64_t flushed) {
  std::string path = temporary_path(directory, base);
  auto m = std::make_unique<Mapping>();
  m->generation = generation;
  m->base = base;
  m->size = size;
  m->flushed = flushed;
  m->fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (m->fd < 0) throw_system("sync_failed", "make journal segment", path, errno);
  forget_unreadable(base);
  if (int error = allocate_file(m->fd, size)) {
    unlink(path.c_str());
    throw_system("sync_failed", "allocate " + std::to_string(size) + " bytes for journal segment", path, error);
  }
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
  if (p == MAP_FAILED) {
    int error = errno;
    unlink(path.c_str());
    throw_system("sync_failed", "map journal segment", path, error);
  }
  m->data = static_cast<uint8_t*>(p);
  write_header(m->data, *m);
  return m;
}

void Mapping::appear(const std::string& directory) {
  std::string path = segment_path(directory, base);
  if (rename(temporary_path(directory, base).c_str(), path.c_str()) != 0)
    throw_system("sync_failed", "name journal segment", path, errno);
}

}  // namespace relay
