// From commit to arrival: delay many|poll|binlog COUNT WRITER RECEIVER, two connected sockets, authenticated already.
// Standard input holds two requests, each behind its size (u32): a COM_QUERY packet whose autocommitted statement makes
// one row, and what the receiver sends. `many` waits in PollMany, `poll` polls without pause; `binlog` sends a dump
// command and is the limit of both: it only looks at what the source sends. A process of its own receives.
// Prints for each transaction three u64, monotonic nanoseconds: statement sent, its OK received, row or XID received.
#include "classic.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PACKET = 4, TYPE = 5 + 4, XID_EVENT = 16, BUFFER = 1 << 20, PATIENCE = 20, FIRST_US = 1000, SPREAD_US = 2000 };

struct request {
  uint32_t size;
  uint8_t bytes[MAX_REQUEST];
};

struct times {
  uint64_t sent, returned, arrived;
};

static uint8_t buffer[BUFFER];

static void read_request(struct request* r) {
  if (fread(&r->size, sizeof r->size, 1, stdin) != 1 || r->size > MAX_REQUEST) fail("read the request");
  if (fread(r->bytes, 1, r->size, stdin) != r->size) fail("read the request");
}

static void put(int fd, const struct request* r) {
  if (send(fd, r->bytes, r->size, MSG_NOSIGNAL) != (ssize_t)r->size) fail("send");
}

static size_t take(int fd, size_t have) {
  const ssize_t n = recv(fd, buffer + have, BUFFER - have, 0);
  if (n <= 0) fail("recv");
  return have + (size_t)n;
}

static void receive_rows(int fd, struct request* request, int many, struct times* times, size_t count) {
  for (size_t done = 0; done < count;) {
    put(fd, request);
    size_t have = 0;
    while (have < REPLY || have < REPLY + u32(buffer + 1)) have = take(fd, have);
    const uint64_t arrived = now();
    require_answer(buffer, have);
    if (buffer[0] == EMPTY) continue;
    const uint32_t rows = many ? u32(buffer + REPLY) : 1;
    for (uint32_t i = 0; i < rows && done < count; i++) times[done++].arrived = arrived;
    if (many && rows) confirm(request->bytes, buffer);
  }
}

static void receive_binlog(int fd, const struct request* request, struct times* times, size_t count) {
  put(fd, request);
  size_t have = 0;
  for (size_t done = 0; done < count;) {
    have = take(fd, have);
    const uint64_t arrived = now();
    size_t at = 0;
    while (have - at > PACKET) {
      const size_t whole = PACKET + (u32(buffer + at) & 0xffffff);
      if (have - at < whole) break;
      if (buffer[at + PACKET] != 0) fail("the source ended the dump");
      if (buffer[at + TYPE] == XID_EVENT && done < count) times[done++].arrived = arrived;
      at += whole;
    }
    memmove(buffer, buffer + at, have - at);
    have -= at;
  }
}

static void write_rows(int fd, const struct request* statement, struct times* times, size_t count) {
  srand(1);
  for (size_t i = 0; i < count; i++) {
    usleep((useconds_t)(FIRST_US + rand() % SPREAD_US));
    times[i].sent = now();
    put(fd, statement);
    const size_t have = take(fd, 0);
    times[i].returned = now();
    if (have <= PACKET || buffer[PACKET] != 0) {
      fprintf(stderr, "the source refused the statement: %.*s\n", (int)(have - PACKET - 1), (const char*)buffer + PACKET + 1);
      exit(1);
    }
  }
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const size_t count = strtoul(argv[2], NULL, 10);
  const int writer = atoi(argv[3]), receiver = atoi(argv[4]);
  struct request statement, request;
  read_request(&statement);
  read_request(&request);
  const struct timeval patience = {.tv_sec = PATIENCE};
  if (setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience)) fail("setsockopt");
  struct times* times = mmap(NULL, count * sizeof *times, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (times == MAP_FAILED) fail("mmap");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    if (strcmp(argv[1], "binlog") == 0) {
      receive_binlog(receiver, &request, times, count);
    } else {
      receive_rows(receiver, &request, strcmp(argv[1], "many") == 0, times, count);
    }
    _exit(0);
  }
  usleep(200 * 1000);  // the receiver waits, or polls, by then
  write_rows(writer, &statement, times, count);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the receiver did not get all rows");
  return fwrite(times, sizeof *times, count, stdout) == count ? 0 : 1;
}
