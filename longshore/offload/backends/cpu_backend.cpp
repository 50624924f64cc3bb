#include "longshore/offload/backends/cpu_backend.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/openmp_threads.h"
#include "longshore/base/refusals.h"
#include "longshore/base/round_up.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/memory/host_memory.h"

namespace longshore::offload {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The first failure in any lane.
class Failure {
 public:
  bool happened() const { return happened_; }

  void set(std::exception_ptr what) {
    std::lock_guard lock(mutex_);
    if (!what_) what_ = what;
    happened_ = true;
  }
  void throw_if_any() {
    std::lock_guard lock(mutex_);
    happened_ = false;
    if (what_) std::rethrow_exception(std::exchange(what_, nullptr));
  }

 private:
  std::mutex mutex_;
  std::exception_ptr what_;
  std::atomic<bool> happened_ = false;
};

// Runs tasks in order on a thread of its own. After a failure in any lane, tasks count as finished
// without being run.
class Worker {
 public:
  explicit Worker(Failure& failure) : failure_(failure) {
    require_threads(omp_get_max_threads());  // this one, and those that it starts
    thread_ = std::thread([this] { work(); });
  }
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  int64_t submit(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    tasks_.push(std::move(task));
    changed_.notify_all();
    return ++submitted_;
  }
  int64_t submitted() const { return submitted_; }

  void wait_for(int64_t task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ >= task; });
  }

 private:
  void work() {
    try {
      start_openmp_threads();
    } catch (...) {
      failure_.set(std::current_exception());
    }
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop();
      lock.unlock();
      try {
        if (!failure_.happened()) task();
      } catch (...) {
        failure_.set(std::current_exception());
      }
      lock.lock();
      ++finished_;
      changed_.notify_all();
    }
  }

  Failure& failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> tasks_;
  int64_t submitted_ = 0, finished_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// Copies with all cores where there are enough bytes to be worth waking them.
void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  constexpr int64_t kPart = int64_t{1} << 17;
  const int64_t parts = ceil_div(bytes, kPart);
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int64_t i = 0; i < parts; ++i)
    std::memcpy(to + i * kPart, from + i * kPart, std::min(kPart, bytes - i * kPart));
}

class CpuBackend : public Backend {
 public:
  CpuBackend(models::Target target, std::shared_ptr<Communicator> communicator)
      : target_(target), communicator_(std::move(communicator)) {
    start_openmp_threads();
  }
  ~CpuBackend() override {
    // Workers wait for each other and use this memory.
    for (auto& worker : workers_)
      if (worker) worker->wait_for(worker->submitted());
    for (auto& [memory, bytes] : mapped_) munmap(memory, bytes);
  }

  models::Target target() const override { return target_; }

  std::byte* allocate(MemoryKind kind, int64_t bytes) override {
    bytes = std::max(align_up(bytes), kArenaAlignment);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      std::string why = std::strerror(errno);
      throw OutOfMemoryError(std::string(name(kind)) + ": asked for " + bytes_text(bytes) + ", " +
                             bytes_text(available_bytes(kind)) + " are available: " + why);
    }
    madvise(memory, bytes, MADV_HUGEPAGE);  // fewer page faults; a refusal does no harm
    mapped_[static_cast<std::byte*>(memory)] = bytes;
    return static_cast<std::byte*>(memory);
  }

  void free(MemoryKind, std::byte* memory) override {
    auto entry = mapped_.find(memory);
    if (entry == mapped_.end()) throw InternalError("CpuBackend: memory that is not ours");
    munmap(memory, entry->second);
    mapped_.erase(entry);
  }

  int64_t available_bytes(MemoryKind) override { return available_host_bytes(); }
  int64_t used_device_bytes() override { return resident_bytes(); }

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    if (lane == Lane::compute) {
      if (failure_.happened()) synchronize();
      work(lane, [&] { op.kernel(target_).run(call); });
    } else if (lane == Lane::network) {
      if (!communicator_) throw InternalError(std::string(op.name) + ": there is no other device");
      worker(lane).submit(
          [this, lane, &op, call] { timed(lane, [&] { communicator_->run(op, call); }); });
    } else {
      worker(lane).submit([this, lane, &op, call] {
        work(lane, [&] { op.kernel(models::host_target(target_)).run(call); });
      });
    }
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    auto copying = [this, lane, from, to] {
      work(lane, [&] {
        copy_bytes(static_cast<std::byte*>(to.data), static_cast<const std::byte*>(from.data),
                   from.type.bytes());
      });
    };
    if (lane != Lane::compute) return void(worker(lane).submit(copying));
    if (failure_.happened()) synchronize();
    copying();
  }

  void record(Lane lane, int event) override {
    // The compute lane is the calling thread, so everything that it was given is done.
    events_[event] = {lane, lane == Lane::compute ? 0 : worker(lane).submitted()};
  }

  void wait(Lane lane, int event) override {
    auto [recorded_on, task] = events_.at(event);
    if (recorded_on == Lane::compute) return;
    Worker& other = worker(recorded_on);
    if (lane == Lane::compute)
      other.wait_for(task);
    else
      worker(lane).submit([&other, task] { other.wait_for(task); });
  }

  void synchronize() override {
    for (auto& worker : workers_)
      if (worker) worker->wait_for(worker->submitted());
    failure_.throw_if_any();
  }

  void start_recording() override {
    synchronize();
    spans_ = {};
    recording_since_ = SteadyClock::now();
    is_recording_ = true;
  }

  LaneSpans stop_recording() override {
    synchronize();
    is_recording_ = false;
    return std::move(spans_);
  }

  void write(MemoryKind, std::byte* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void read(MemoryKind, void* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void write_zeros(MemoryKind, std::byte* to, int64_t bytes) override { std::memset(to, 0, bytes); }

 private:
  Worker& worker(Lane lane) {
    auto& worker = workers_[lane];
    if (!worker) worker = std::make_unique<Worker>(failure_);
    return *worker;
  }

  // A kernel has all cores, and so has a copy. Two at a time would each wait for threads that the
  // other keeps off their core: a copy of one thread next to a kernel costs that kernel as long as
  // the copy takes.
  template <class F>
  void work(Lane lane, F f) {
    std::lock_guard lock(cores_);
    timed(lane, f);
  }

  // Each lane writes a list of its own, and the lists are read after synchronize().
  template <class F>
  void timed(Lane lane, F f) {
    if (!is_recording_) return f();
    auto seconds = [&] {
      return std::chrono::duration<double>(SteadyClock::now() - recording_since_).count();
    };
    double begin = seconds();
    f();
    spans_[lane].push_back({begin, seconds()});
  }

  models::Target target_;
  std::shared_ptr<Communicator> communicator_;
  std::map<std::byte*, int64_t> mapped_;
  std::map<int, std::pair<Lane, int64_t>> events_;
  std::mutex cores_;
  Failure failure_;
  LaneSpans spans_;
  SteadyClock::time_point recording_since_;
  bool is_recording_ = false;
  PerLane<std::unique_ptr<Worker>> workers_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(models::Target target,
                                          std::shared_ptr<Communicator> communicator) {
  return std::make_unique<CpuBackend>(target, std::move(communicator));
}

}  // namespace longshore::offload
