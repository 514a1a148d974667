// From commit to arrival: delay many|poll|binlog COUNT INTERVAL RECEIVER WRITER..., connected sockets, authenticated
// already. Standard input holds two requests, each behind its size (u32): a COM_QUERY packet whose autocommitted
// statement makes one row, and what the receiver sends. `many` waits in PollMany, `poll` polls without pause; `binlog`
// sends a dump command and is the limit of both: it only looks at what the source sends. A process of its own receives.
// Transactions are due every INTERVAL nanoseconds on average (0: as fast as the writers commit), each at a random moment
// of its interval. Prints for each three u64, monotonic nanoseconds: statement sent, its OK received, row or XID
// received. With several writers, the k-th arrival stands beside the k-th OK.
#include "classic.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PACKET = 4, TYPE = 5 + 4, XID_EVENT = 16, BUFFER = 1 << 20, PATIENCE = 20, WRITERS = 64 };

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

static void require_ok(int fd) {
  const size_t have = take(fd, 0);
  if (have > PACKET && buffer[PACKET] == 0) return;
  fprintf(stderr, "the source refused the statement: %.*s\n", (int)(have - PACKET - 1), (const char*)buffer + PACKET + 1);
  exit(1);
}

static void write_rows(struct pollfd* writers, size_t many, const struct request* statement, uint64_t interval,
                       struct times* times, size_t count) {
  size_t begun = 0, done = 0, busy = 0;
  const uint64_t start = now();
  uint64_t due = start;
  srand(1);
  while (done < count) {
    for (size_t w = 0; w < many && begun < count && due <= now(); w++) {
      if (writers[w].events) continue;  // its statement is under way
      times[begun++].sent = now();
      put(writers[w].fd, statement);
      writers[w].events = POLLIN;
      busy++;
      due = start + begun * interval + (interval ? (uint64_t)rand() % interval : 0);
    }
    const uint64_t moment = now(), left = due > moment ? due - moment : 0;
    const struct timespec wait = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
    if (ppoll(writers, many, busy < many && begun < count ? &wait : NULL, NULL) < 0) fail("ppoll");
    for (size_t w = 0; w < many; w++) {
      if (!writers[w].events || !writers[w].revents) continue;
      require_ok(writers[w].fd);
      times[done++].returned = now();
      writers[w].events = 0;
      busy--;
    }
  }
}

int main(int argc, char** argv) {
  if (argc < 6 || argc > 5 + WRITERS) return 2;
  const size_t count = strtoul(argv[2], NULL, 10);
  const uint64_t interval = strtoull(argv[3], NULL, 10);
  const int receiver = atoi(argv[4]);
  struct pollfd writers[WRITERS];
  const size_t many = (size_t)argc - 5;
  for (size_t w = 0; w < many; w++) writers[w] = (struct pollfd){.fd = atoi(argv[5 + w])};
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
  if (prctl(PR_SET_TIMERSLACK, 1)) fail("prctl");
  usleep(200 * 1000);  // the receiver waits, or polls, by then
  write_rows(writers, many, &statement, interval, times, count);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the receiver did not get all rows");
  return fwrite(times, sizeof *times, count, stdout) == count ? 0 : 1;
}
