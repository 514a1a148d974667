// Writes, syncs and allocations of files, repeated if a signal interrupts them. Each returns 0 or an errno.
//
// Signals come at any time, such as SIGTERM and SIGHUP. An interrupted call has failed in no other way: it is neither a
// failed sync nor a fatal error.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/bytes.hpp"

namespace relay {

// What `call` returns, which is negative and sets errno if it fails.
template <typename Call>
auto repeat(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

inline int write_at(int fd, Bytes bytes, uint64_t offset) {
  for (size_t done = 0; done < bytes.size;) {
    const ssize_t n =
        repeat([&] { return pwrite(fd, bytes.data + done, bytes.size - done, static_cast<off_t>(offset + done)); });
    if (n <= 0) return n == 0 ? ENOSPC : errno;
    done += static_cast<size_t>(n);
  }
  return 0;
}

inline int sync_data(int fd) {
  return repeat([&] { return fdatasync(fd); }) == 0 ? 0 : errno;
}

inline int sync_folder(int fd) {
  return repeat([&] { return fsync(fd); }) == 0 ? 0 : errno;
}

inline int allocate_file(int fd, uint64_t size) {
  for (;;) {
    const int error = posix_fallocate(fd, 0, static_cast<off_t>(size));
    if (error != EINTR) return error;
  }
}

}  // namespace relay
