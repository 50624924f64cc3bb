#include "offload/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <thread>

#include "base/error.h"
#include "offload/arena.h"
#include "offload/host_memory.h"

namespace longshore::offload {
namespace {

// Runs tasks in order on a thread of its own. `finished` counts them.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
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
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop();
      lock.unlock();
      task();
      lock.lock();
      ++finished_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> tasks_;
  int64_t submitted_ = 0, finished_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(models::Target target) : target_(target) {}
  ~CpuBackend() override {
    for (auto& [memory, bytes] : mapped_) munmap(memory, bytes);
  }

  models::Target target() const override { return target_; }

  std::byte* allocate(MemoryKind kind, int64_t bytes) override {
    bytes = std::max(align_up(bytes), kArenaAlignment);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw PlanError(std::string(name(kind)) + ": the system refuses " + bytes_text(bytes) + ": " +
                      std::strerror(errno));
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

  void run(const models::Op& op, const models::KernelCall& call) override {
    op.kernel(target_).run(call);
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    worker(lane).submit([from, to] { std::memcpy(to.data, from.data, from.type.bytes()); });
  }

  void record(Lane lane, int event) override {
    // The compute lane is the calling thread: what it has run is done.
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
  }

  void write(MemoryKind, std::byte* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void read(MemoryKind, void* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }

 private:
  Worker& worker(Lane lane) {
    auto& worker = workers_[static_cast<size_t>(lane)];
    if (!worker) worker = std::make_unique<Worker>();
    return *worker;
  }

  models::Target target_;
  std::map<std::byte*, int64_t> mapped_;
  std::map<int, std::pair<Lane, int64_t>> events_;
  std::array<std::unique_ptr<Worker>, kLanes.size()> workers_;  // stopped before memory goes
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(models::Target target) {
  return std::make_unique<CpuBackend>(target);
}

}  // namespace longshore::offload
