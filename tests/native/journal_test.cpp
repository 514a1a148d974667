// What is committed to a journal comes back, also after the writer's death; what is damaged is named.
#include "journal/journal.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "build.hpp"
#include "journal/journal_writer.hpp"

using namespace relay;
using build::bytes;

namespace {

constexpr uint64_t kSegment = 1 << 16;

std::string made_folder() {
  std::string name = "/tmp/relay_journal_test_XXXXXX";
  if (!mkdtemp(name.data())) std::abort();
  return name;
}

void removed(const std::string& folder) {
  if (DIR* listing = opendir(folder.c_str())) {
    while (dirent* entry = readdir(listing)) unlink((folder + "/" + entry->d_name).c_str());
    closedir(listing);
  }
  rmdir(folder.c_str());
}

std::string row(uint32_t id) {
  std::string image = bytes("01 ff fe");
  image.append(reinterpret_cast<const char*>(&id), sizeof id);
  return image;
}

void write(JournalWriter& writer, JournalWriter::Handle table, uint32_t id) {
  const std::string body = row(id);
  writer.rows(table, RowKind::insert, 100 + id, 1700000000, 1, Bytes(body));
}

std::vector<uint32_t> ids(const std::string& folder, uint64_t end) {
  JournalReader reader(folder);
  std::vector<uint32_t> found;
  for (uint64_t at = reader.first(); at < end;) {
    FrameView view = reader.frame(at, true);
    if (view.kind() == FrameKind::rows) {
      auto frame = parsed<RowsFrame>(view);
      EXPECT(reader.definition(frame.table)->table == "orders");
      found.push_back(load<uint32_t>(frame.body.data + 3));
    }
    at = view.next;
  }
  return found;
}

void rows_come_back_over_segments_and_restarts() {
  const std::string folder = made_folder();
  const std::string definition = build::packed({{"id", kLong}});
  std::vector<uint32_t> written;
  for (uint32_t life = 0; life < 3; ++life) {
    JournalWriter writer(folder, kSegment);
    if (!life) writer.source(4, "binlog.000001", {}, "mysql:test");
    EXPECT(writer.state().file == "binlog.000001");
    const auto table = writer.define(Bytes(definition));
    for (uint32_t i = 0; i < 2000; ++i) {
      write(writer, table, life * 2000 + i);
      writer.commit(200 + i, 1700000000, {}, 1);
      written.push_back(life * 2000 + i);
    }
    write(writer, table, 4711);  // of a transaction that does not end: the next writer cuts it away
    EXPECT(writer.in_transaction());
    EXPECT(writer.flush() == writer.committed());
    EXPECT(writer.segments().size() > 1);
  }
  JournalWriter writer(folder, kSegment);
  EXPECT(writer.state().sequence == written.size() + 1);
  EXPECT(ids(folder, writer.committed()) == written);
  const uint64_t second = writer.segments()[1].base;
  writer.drop_before(second);
  EXPECT(JournalReader(folder).first() == second);
  removed(folder);
}

void a_flipped_bit_is_named() {
  const std::string folder = made_folder();
  const std::string definition = build::packed({{"id", kLong}});
  uint64_t end = 0;
  std::string file;
  {
    JournalWriter writer(folder, kSegment);
    writer.source(4, "binlog.000001", {}, "mysql:test");
    write(writer, writer.define(Bytes(definition)), 0x5eed1234);
    writer.commit(200, 1700000000, {}, 1);
    end = writer.flush();
  }
  if (DIR* listing = opendir(folder.c_str())) {
    while (dirent* entry = readdir(listing)) {
      const std::string path = folder + "/" + entry->d_name;
      const int fd = open(path.c_str(), O_RDWR);
      std::string content(kSegment, '\0');
      const ssize_t size = fd < 0 ? -1 : pread(fd, content.data(), content.size(), 0);
      const size_t at = size < 0 ? content.npos : content.find(bytes("34 12 ed 5e"));
      if (at != content.npos) {
        EXPECT(pwrite(fd, "\x35", 1, static_cast<off_t>(at)) == 1);
        file = entry->d_name;
      }
      if (fd >= 0) close(fd);
    }
    closedir(listing);
  }
  EXPECT(!file.empty());
  std::string said;
  try {
    ids(folder, end);
  } catch (const JournalError& error) {
    EXPECT(error.code == "journal_corrupt");
    said = error.what();
  }
  EXPECT(said.find(file) != std::string::npos);
  removed(folder);
}

}  // namespace

int main() {
  rows_come_back_over_segments_and_restarts();
  a_flipped_bit_is_named();
  return build::failures ? 1 : 0;
}
