#include "longshore/base/patient_output.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "longshore/base/file_descriptor.h"

namespace longshore {
namespace {

using std::chrono::milliseconds;

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    reader = FileDescriptor(ends[0]);
    writer = FileDescriptor(ends[1]);
  }
  // What is in it now.
  std::string read_all() {
    std::string text;
    char piece[65536];
    for (ssize_t count; (count = read(reader.number(), piece, sizeof piece)) > 0;) {
      text.append(piece, static_cast<size_t>(count));
      if (count < static_cast<ssize_t>(sizeof piece)) break;
    }
    return text;
  }
  FileDescriptor reader, writer;
};

milliseconds none() { return milliseconds(0); }

TEST(PatientOutput, WritesAtOnceWhatIsRead) {
  Pipe pipe;
  PatientOutput output(pipe.writer.number());
  output.put("one\n");
  EXPECT_FALSE(output.waits());
  EXPECT_EQ(pipe.read_all(), "one\n");
  EXPECT_EQ(output.finish(none), 0u);
}

// With plain writes this test would never end.
TEST(PatientOutput, WaitsForNobodyAndSaysWhatIsLeftOut) {
  Pipe pipe;
  PatientOutput output(pipe.writer.number());
  constexpr int kLines = 40000;
  auto line = [](int i) { return std::to_string(i) + std::string(92, '.') + "\n"; };
  for (int i = 0; i < kLines; ++i) output.put(line(i));
  EXPECT_TRUE(output.waits());
  EXPECT_GT(output.finish(none), 1000u);

  std::string text;
  while (output.waits()) {
    text += pipe.read_all();
    output.finish(none);
  }
  text += pipe.read_all();
  // Whole lines from the first on, then that some are left out, and the rest to the last.
  int next = 0;
  size_t at = 0;
  for (; text.compare(at, line(next).size(), line(next)) == 0; ++next) at += line(next).size();
  const size_t end = text.find('\n', at);
  ASSERT_NE(end, std::string::npos);
  int left_out = 0;
  ASSERT_EQ(std::sscanf(text.c_str() + at, "(%d lines left out: nobody read)", &left_out), 1)
      << text.substr(at, 100);
  at = end + 1;
  for (next += left_out; next < kLines; ++next) {
    ASSERT_EQ(text.compare(at, line(next).size(), line(next)), 0) << next;
    at += line(next).size();
  }
  EXPECT_EQ(at, text.size());
}

TEST(PatientOutput, NothingWaitsForAReaderThatIsGone) {
  auto* before = signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  PatientOutput output(pipe.writer.number());
  for (int i = 0; i < 1000; ++i) output.put(std::string(1000, 'x'));
  EXPECT_TRUE(output.waits());
  pipe.reader.close();
  EXPECT_EQ(output.finish([] { return milliseconds(60000); }), 0u);
  signal(SIGPIPE, before);
}

}  // namespace
}  // namespace longshore
