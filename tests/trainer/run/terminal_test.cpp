// What the train program shows on terminals of all widths, in pipes, and to those who ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "tests/base/process.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kSmall = TRAIN_PROGRAM
    " --config quickstart.yml backend=cpu base_emb_dim=32 base_num_decoder_layers=2 "
    "base_num_query_heads=2 base_num_kv_heads=1 head_dim=16 base_mlp_dim=32 max_target_length=64 "
    "per_device_batch_size=2 vocab_size=257 dtype=float32 dataset_type=synthetic dataset_path= "
    "eval_dataset_path= tokenizer_path= sample_tokens=0 peak_tflops_per_device=1 ";

// What is drawn and printed there, each line by itself, and each by itself that is drawn in the
// place of another.
struct Shown {
  int exit_code = -1;
  std::string output;

  std::vector<std::string> lines() const {
    const std::string plain = std::regex_replace(output, std::regex("\033\\[[0-9]*m"), "");
    std::vector<std::string> lines{""};
    for (const char c : plain)
      if (c == '\r' || c == '\n')
        lines.emplace_back();
      else
        lines.back() += c;
    return lines;
  }
  std::vector<std::string> lines_with(const std::string& begin) const {
    std::vector<std::string> found;
    for (const std::string& line : lines())
      if (line.starts_with(begin)) found.push_back(line);
    return found;
  }
};

// On a terminal of that width, which becomes another one once a bar was drawn.
Shown run_on_terminal(const std::string& command, unsigned short columns,
                      const std::string& environment = "TERM=xterm",
                      unsigned short columns_later = 0) {
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t id = forkpty(&terminal, nullptr, nullptr, &size);
  if (id == 0) {
    const std::string line = "unset NO_COLOR; " + environment + " exec " + command;
    execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  Shown shown;
  std::vector<char> part(4096);
  for (ssize_t count = 0; (count = read(terminal, part.data(), part.size())) > 0;) {
    shown.output.append(part.data(), static_cast<size_t>(count));
    if (columns_later == 0 || shown.output.find("\r[") == std::string::npos) continue;
    const winsize later{.ws_row = 24, .ws_col = columns_later, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(terminal, TIOCSWINSZ, &later);
  }
  int status = 0;
  waitpid(id, &status, 0);
  close(terminal);
  shown.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return shown;
}

class Terminal : public testing::Test {
 protected:
  std::string train(const std::string& settings) {
    return kSmall + settings + " base_output_directory=" + (folder / "").string();
  }

  data::TemporaryFolder folder;
};

TEST_F(Terminal, LinesFitItsWidth) {
  for (const unsigned short columns : {20, 60, 80, 120, 200}) {
    const std::string width = std::to_string(columns);
    const Shown shown = run_on_terminal(train("steps=5 run_name=of" + width), columns);
    ASSERT_EQ(shown.exit_code, 0) << shown.output;
    const std::vector<std::string> steps = shown.lines_with("completed step: ");
    ASSERT_EQ(steps.size(), 5u) << shown.output;
    for (const std::string& line : steps)
      if (columns >= 60) {
        EXPECT_LE(line.size(), columns) << line;
        EXPECT_THAT(line, HasSubstr(", loss: "));
      }
    const std::vector<std::string> bars = shown.lines_with(columns >= 60 ? "[" : "5/5");
    ASSERT_FALSE(bars.empty()) << shown.output;
    for (const std::string& line : bars) EXPECT_LT(line.size(), columns) << line;
    if (columns >= 60) {
      EXPECT_THAT(bars.back(), HasSubstr("] 5/5, 0:00 left, loss 5."));
    }
    if (columns == 200) {
      EXPECT_THAT(steps[0], HasSubstr("device GiB: "));
    }
  }
}

TEST_F(Terminal, IsAskedItsWidthWheneverSomethingIsDrawn) {
  const Shown shown = run_on_terminal(train("steps=300 run_name=a"), 200, "TERM=xterm", 60);
  ASSERT_EQ(shown.exit_code, 0) << shown.output;
  const std::vector<std::string> bars = shown.lines_with("[");
  ASSERT_GT(bars.size(), 2u);
  EXPECT_LT(bars.back().size(), 60u);
  EXPECT_LE(shown.lines_with("completed step: 299")[0].size(), 60u);
}

TEST_F(Terminal, GetsColoursUnlessNobodyWantsThem) {
  const std::string command = train("steps=3 run_name=a skip_first_n_steps_for_profiler=2");
  const Shown coloured = run_on_terminal(command, 80);
  EXPECT_THAT(coloured.output, HasSubstr("\r[\033[32m="));
  EXPECT_THAT(coloured.output, HasSubstr("\033[33mwarning:\033[0m "));
  // Nothing but colours, which lines() takes away.
  for (const std::string& line : coloured.lines()) EXPECT_EQ(line.find('\033'), line.npos) << line;

  const Shown plain = run_on_terminal(command + "b", 80, "NO_COLOR=1 TERM=xterm");
  ASSERT_EQ(plain.exit_code, 0) << plain.output;
  EXPECT_EQ(plain.output.find('\033'), std::string::npos) << plain.output;
  EXPECT_FALSE(plain.lines_with("[=").empty());
  EXPECT_THAT(run_on_terminal(command + "c", 80, "NO_COLOR= TERM=xterm").output,
              HasSubstr("\033["));
}

TEST_F(Terminal, ThatIsDumbAndAPipeGetWholeLinesAlone) {
  const Shown dumb = run_on_terminal(train("steps=3 run_name=a"), 80, "TERM=dumb");
  ASSERT_EQ(dumb.exit_code, 0) << dumb.output;
  EXPECT_EQ(dumb.output.find('\033'), std::string::npos);
  EXPECT_TRUE(dumb.lines_with("[").empty());
  const ProgramResult piped = run_program(train("steps=3 run_name=b"));
  ASSERT_EQ(piped.exit_code, 0) << piped.output;
  EXPECT_EQ(piped.output.find_first_of("\033\r"), std::string::npos);
  EXPECT_EQ(piped.output.find("\n["), std::string::npos);
  // Programs that read these lines find all figures.
  for (const char* figure : {"TFLOP/s/device: ", "total_weights: 128", "host GiB: "})
    EXPECT_THAT(piped.output, HasSubstr(figure));
}

TEST_F(Terminal, HasRoomForTheSummary) {
  const Shown shown =
      run_on_terminal(train("steps=5 run_name=a lora_rank=2 "
                            "optimizer_memory_host_offload=true remat_policy=minimal_offloaded"),
                      80);
  ASSERT_EQ(shown.exit_code, 0) << shown.output;
  const std::vector<std::string> lines = shown.lines();
  const auto first = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("steps    "); });
  ASSERT_NE(first, lines.end()) << shown.output;
  size_t count = 0;
  for (auto line = first; line != lines.end(); ++line) {
    const bool is_bar = line->starts_with("[");
    if (is_bar || line->find_first_not_of(' ') == line->npos) continue;  // and what takes it back
    ++count;
    if (!line->starts_with("run directory ")) {
      EXPECT_LE(line->size(), 80u) << *line;
    }
    EXPECT_TRUE(line->size() <= 18 || (*line)[17] == ' ')
        << *line;  // where the second column begins
  }
  EXPECT_LE(count, 24u);
  for (const char* words : {"5, median ", "tokens/s/device, MFU ", "waiting for data ",
                            "optimizer ", "pinned_host", "  adapter/ ", "run directory "})
    EXPECT_THAT(shown.output, HasSubstr(words));
}

TEST_F(Terminal, IsLeftInPeaceByQuietRuns) {
  const std::string settings = "steps=3 skip_first_n_steps_for_profiler=2 --quiet run_name=";
  for (const std::string& output : {run_on_terminal(train(settings + "a"), 80).output,
                                    run_program(train(settings + "b")).output}) {
    EXPECT_THAT(output, Not(HasSubstr("completed step")));
    EXPECT_THAT(output, Not(HasSubstr("backend:")));
    EXPECT_THAT(output, Not(HasSubstr("0:0")));
    EXPECT_THAT(output, HasSubstr("skip_first_n_steps_for_profiler: 2 has no effect"));
    EXPECT_THAT(output, HasSubstr("tokens/s/device"));
    EXPECT_THAT(output, HasSubstr("run directory "));
  }
  const ProgramResult failed = run_program(train("steps=0 --quiet run_name=c"));
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_THAT(failed.output, HasSubstr("steps: found"));
}

std::vector<std::string> printed_steps(const std::string& output) {
  std::vector<std::string> steps;
  const std::regex step("completed step: ([0-9]+),");
  for (std::sregex_iterator found(output.begin(), output.end(), step), end; found != end; ++found)
    steps.push_back((*found)[1]);
  return steps;
}

TEST_F(Terminal, GetsALineEachLogPeriod) {
  const ProgramResult result = run_program(train("steps=8 log_period=3 run_name=a"));
  EXPECT_THAT(printed_steps(result.output), ElementsAre("0", "2", "5", "7")) << result.output;
  std::istringstream records(data::read_file(folder / "a/metrics.jsonl"));
  int count = 0;
  for (std::string line; std::getline(records, line);) ++count;
  EXPECT_EQ(count, 8);
  // It is no other run for that.
  const ProgramResult more =
      run_program(train("steps=12 log_period=100 run_name=a "
                        "learning_rate_schedule_steps=8"));
  EXPECT_THAT(printed_steps(more.output), ElementsAre("8", "11")) << more.output;
}

TEST_F(Terminal, GetsTheLastStepsLineOfARunThatIsStopped) {
  Process process(train("steps=1000000 log_period=1000000 run_name=a"), folder / "log");
  ASSERT_TRUE(process.wait_for("completed step: 0"));
  usleep(200'000);
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.output();
  const std::vector<std::string> steps = printed_steps(process.output());
  ASSERT_EQ(steps.size(), 2u) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("SIGTERM: stopped after " +
                                          std::to_string(std::stoll(steps[1]) + 1) + " of "));
}

TEST_F(Terminal, GetsWhatTakesMemoryAfterSteps) {
  const ProgramResult result = run_program(train("steps=4 memory_report_steps=0,2 run_name=a"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\nmemory after step 0:\ndevice: "));
  EXPECT_THAT(result.output, HasSubstr("\nmemory after step 2:\ndevice: "));
  EXPECT_THAT(result.output, Not(HasSubstr("memory after step 1:")));
  EXPECT_THAT(result.output, HasSubstr("\n  optimizer   decoder   first_moment "));
  EXPECT_THAT(result.output, HasSubstr("\nthe system counts "));
}

// Even one that comes before there is anything to tell.
TEST_F(Terminal, GetsWhatTakesMemoryBySIGUSR2) {
  Process process(train("steps=1000000 log_period=100 run_name=a"), folder / "log");
  ASSERT_TRUE(process.wait_for("backend: "));
  process.send(SIGUSR2);
  ASSERT_TRUE(process.wait_for("memory after step 0:")) << process.output();
  process.send(SIGUSR2);
  ASSERT_TRUE(process.wait_for("completed step: 99,")) << process.output();
  process.send(SIGUSR2);
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.output();
  size_t reports = 0;
  const std::string output = process.output();
  for (size_t at = 0; (at = output.find("memory after step", at)) != output.npos; ++at) ++reports;
  EXPECT_GE(reports, 2u);
  EXPECT_LE(reports, 3u);
}

}  // namespace
}  // namespace longshore::trainer
