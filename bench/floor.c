// The floor under every reader of a binlog: sends the dump command that comes on standard input over a connected,
// authenticated socket (fd in argv[1]) and reads what comes, doing nothing with it, up to the EOF packet that ends a
// non-blocking dump. Prints bytes and nanoseconds. A blocking dump has no such end: the program reads until it is killed.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, EOF_PACKET = 9 };

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char** argv) {
  static uint8_t buffer[BUFFER];
  if (argc != 2) return 2;
  const int fd = atoi(argv[1]);
  const ssize_t size = read(0, buffer, sizeof buffer);
  const uint64_t begin = now();
  if (size <= 0 || send(fd, buffer, (size_t)size, 0) != size) return 1;
  uint64_t bytes = 0;
  uint8_t last[EOF_PACKET] = {0};
  for (;;) {
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) return 1;
    bytes += (uint64_t)n;
    for (ssize_t i = n < EOF_PACKET ? 0 : n - EOF_PACKET; i < n; i++) {
      for (int k = 1; k < EOF_PACKET; k++) last[k - 1] = last[k];
      last[EOF_PACKET - 1] = buffer[i];
    }
    // u24 length 5, sequence, 0xfe, u16 warnings 0, u16 status
    if (last[0] == 5 && last[1] == 0 && last[2] == 0 && last[4] == 0xfe && last[5] == 0 && last[6] == 0) break;
  }
  printf("%llu %llu\n", (unsigned long long)bytes, (unsigned long long)(now() - begin));
  return 0;
}
