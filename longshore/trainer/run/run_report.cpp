#include "longshore/trainer/run/run_report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>

#include "longshore/base/atomic_file.h"
#include "longshore/base/timing.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/report/run_page.h"

namespace longshore::trainer {
namespace {

constexpr double kPart = 0.01;            // of the time
constexpr double kSecondsPerByte = 3e-8;  // of a file that is read
constexpr std::chrono::seconds kLeastPause(2);

double thread_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

RunReport::RunReport(std::filesystem::path folder, std::optional<CostlyText> advice, Log log)
    : folder_(std::move(folder)), advice_(std::move(advice)), log_(std::move(log)) {
  thread_ = std::thread([this] { work(); });
}

RunReport::~RunReport() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
  write_page();  // as important as what waits for it
}

void RunReport::tell() {
  {
    std::lock_guard lock(mutex_);
    is_new_ = true;
  }
  changed_.notify_one();
}

double RunReport::reading_seconds() const {
  const auto size = [&](const char* file) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(folder_ / file, error);
    return error ? 0 : bytes;
  };
  const uint64_t bytes =
      records_ ? records_->unread_bytes() : size(kMetricsFile) + size(kTraceFile);
  return kSecondsPerByte * static_cast<double>(bytes);
}

bool RunReport::has_room_for(double seconds) const {
  return thread_seconds() + seconds <= kPart * seconds_since(begin_);
}

void RunReport::work() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);  // of this thread
  std::unique_lock lock(mutex_);
  while (!ends_) {
    changed_.wait(lock, [&] { return is_new_ || ends_; });
    if (ends_) break;
    is_new_ = false;
    lock.unlock();
    // Without the lock, for which training would wait: it asks for sizes of files.
    const bool writes = has_room_for(page_seconds_ + reading_seconds());
    if (writes) {
      write_page();
      if (advice_ && has_room_for(advice_->seconds)) write_advice();
    }
    lock.lock();
    is_new_ |= !writes;
    changed_.wait_for(lock, kLeastPause, [&] { return ends_; });
  }
}

void RunReport::write_page() {
  std::string trouble;
  double begin = thread_seconds();
  try {
    if (records_)
      records_->update();
    else
      records_.emplace(folder_);
    begin = thread_seconds();
    write_file(folder_ / kReportFile, run_page(*records_, live_now()), Links::refused);
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  if (trouble != trouble_ && !trouble.empty()) log_("no report.html: " + trouble);
  trouble_ = trouble;
  page_seconds_ = thread_seconds() - begin;
}

void RunReport::write_advice() {
  try {
    write_file(folder_ / kAdviceFile, advice_->make(), Links::refused);
  } catch (const std::exception& error) {
    log_(std::string("no advice: ") + error.what());
  }
  advice_.reset();
}

}  // namespace longshore::trainer
