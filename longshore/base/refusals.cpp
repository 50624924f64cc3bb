#include "longshore/base/refusals.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "longshore/base/control_groups.h"
#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore {
namespace {

using Limits = std::vector<std::string>;

template <class Resource>
void add_limit(Resource resource, const char* name, int64_t unit, const char* unit_name,
               Limits& limits) {
  rlimit limit;
  if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(std::string(name) + " " +
                     std::to_string(limit.rlim_cur / static_cast<rlim_t>(unit)) + unit_name);
}

// Of the process's control group and those above it, each that has a limit.
void add_group_limits(const char* controller, const char* file_of_version_2,
                      const char* file_of_version_1, int64_t unit, const char* unit_name,
                      Limits& limits) {
  constexpr int64_t kNone = int64_t{1} << 60;  // as version 1 writes that there is none
  for (const ControlGroup& group : control_groups(controller)) {
    const char* file = group.is_version_2 ? file_of_version_2 : file_of_version_1;
    int64_t limit = 0;
    if (std::ifstream(group.folder / file) >> limit && limit < kNone)
      limits.push_back(std::string(file) + " " + std::to_string(limit / unit) + unit_name +
                       " of a control group");
  }
}

void add_address_space(Limits& limits) {
  add_limit(RLIMIT_AS, "ulimit -v", 1024, " KiB (address space)", limits);
}

std::string text(const Limits& limits, const std::string& none) {
  if (limits.empty()) return none;
  std::string text = "limits: " + limits[0];
  for (size_t i = 1; i < limits.size(); ++i) text += ", " + limits[i];
  return text;
}

[[noreturn]] void end_uncaught() {
  int code = 1;
  std::string message = "an exception that nobody caught";
  try {
    if (std::current_exception()) throw;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error) || is_out_of_threads(error)) code = 2;
    message = printable(refusal_text(error));
  } catch (...) {
  }
  message = std::string(program_invocation_short_name) + ": " + message + "\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, message.data(), message.size());
  _exit(code);
}

}  // namespace

std::string memory_limits() {
  Limits limits;
  add_address_space(limits);
  add_limit(RLIMIT_DATA, "ulimit -d", 1024, " KiB (data)", limits);
  add_group_limits("memory", "memory.max", "memory.limit_in_bytes", 1 << 20, " MiB", limits);
  return text(limits, "no limit is set: the machine has no more");
}

std::string thread_limits() {
  Limits limits;
  add_limit(RLIMIT_NPROC, "ulimit -u", 1, " (processes and threads of this user)", limits);
  add_group_limits("pids", "pids.max", "pids.max", 1, "", limits);
  add_address_space(limits);
  return text(limits, "no limit is set: the system has no more");
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const OutOfMemoryError*>(&error))
    return true;
  if (dynamic_cast<const Error*>(&error)) return false;  // whose messages quote others
  // What LibTorch's CUDA and CPU allocators and oneDNN say.
  constexpr std::array kWords{"out of memory", "can't allocate memory", "could not create a memory",
                              "could not create a primitive"};
  const std::string_view what = error.what();
  return what.find("primitive descriptor") == std::string_view::npos &&  // there is none for it
         std::ranges::any_of(
             kWords, [&](const char* words) { return what.find(words) != std::string_view::npos; });
}

bool is_out_of_threads(const std::exception& error) {
  const auto* refused = dynamic_cast<const std::system_error*>(&error);
  return refused && refused->code() == std::errc::resource_unavailable_try_again;
}

std::string refusal_text(const std::exception& error) {
  if (is_out_of_threads(error)) return "the system refused a thread; " + thread_limits();
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return "the system refused memory; " + memory_limits();
  std::string text = error.what();
  if (text.ends_with('\n')) text.pop_back();  // as those with tables do
  if (is_out_of_memory(error) && text.find(memory_limits()) == std::string::npos)
    text += (text.find('\n') == std::string::npos ? "; " : "\n") + memory_limits();
  return text;
}

void require_threads(int64_t count) {
  std::mutex until_all_run;
  std::unique_lock lock(until_all_run);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(count));
  try {
    for (int64_t i = 0; i < count; ++i)
      threads.emplace_back([&] { std::lock_guard wait(until_all_run); });
  } catch (const std::system_error&) {
    const auto started = std::ssize(threads);
    lock.unlock();
    threads.clear();
    throw ConfigError("threads: asked for " + std::to_string(count) + " more, the system started " +
                      std::to_string(started) + "; " + thread_limits() +
                      (count > 1 ? "; a smaller OMP_NUM_THREADS takes less" : ""));
  }
  lock.unlock();
}

void end_on_uncaught_exceptions() { std::set_terminate(end_uncaught); }

}  // namespace longshore
