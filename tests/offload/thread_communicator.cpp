#include "tests/offload/thread_communicator.h"

#include <barrier>
#include <cstring>
#include <map>

#include "longshore/base/error.h"

namespace longshore::offload {
namespace {

using models::Dtype;
using models::KernelCall;

// The ranks along one axis.
class Group {
 public:
  explicit Group(int64_t ranks) : calls_(ranks), barrier_(ranks) {}

  void run(int64_t rank, const models::Op& op, const KernelCall& call) {
    calls_[rank] = &call;
    barrier_.arrive_and_wait();
    std::vector<std::byte> result = result_of(rank, op);
    barrier_.arrive_and_wait();  // inputs may be outputs
    std::memcpy(call.out[0].data, result.data(), result.size());
  }

 private:
  std::vector<std::byte> result_of(int64_t rank, const models::Op& op) const {
    const models::Type& type = calls_[rank]->out[0].type;
    std::vector<std::byte> result(static_cast<size_t>(type.bytes()));
    if (&op == &models::all_gather_op) {
      size_t part = result.size() / calls_.size();
      for (size_t r = 0; r < calls_.size(); ++r)
        std::memcpy(result.data() + r * part, calls_[r]->in[0].data, part);
      return result;
    }
    if (&op == &models::all_to_all_op) {
      const size_t part = result.size() / calls_.size();
      for (size_t r = 0; r < calls_.size(); ++r)
        std::memcpy(result.data() + r * part, calls_[r]->in[0].as<std::byte>() + rank * part, part);
      return result;
    }
    int64_t first = &op == &models::reduce_scatter_op ? rank * type.shape.count() : 0;
    if (type.dtype == Dtype::float32)
      add<float>(first, result);
    else if (type.dtype == Dtype::float64)
      add<double>(first, result);
    else
      throw InternalError("a reduction of " + std::string(name(type.dtype)));
    return result;
  }

  template <class T>
  void add(int64_t first, std::vector<std::byte>& result) const {
    T* sum = reinterpret_cast<T*>(result.data());
    int64_t count = static_cast<int64_t>(result.size() / sizeof(T));
    for (const KernelCall* call : calls_)
      for (int64_t i = 0; i < count; ++i) sum[i] += call->in[0].as<T>()[first + i];
  }

  std::vector<const KernelCall*> calls_;
  std::barrier<> barrier_;
};

class ThreadCommunicator : public Communicator {
 public:
  struct Place {
    std::shared_ptr<Group> group;
    int64_t rank = 0;
  };
  explicit ThreadCommunicator(std::map<Axis, Place> places) : places_(std::move(places)) {}

  void run(const models::Op& op, const KernelCall& call) override {
    const Place& place = places_.at(std::any_cast<const Collective&>(call.attrs).axis);
    place.group->run(place.rank, op, call);
  }

 private:
  std::map<Axis, Place> places_;
};

}  // namespace

std::vector<std::shared_ptr<Communicator>> thread_communicators(const DeviceMesh& mesh) {
  auto groups = [](int64_t count, int64_t ranks) {
    std::vector<std::shared_ptr<Group>> groups;
    for (int64_t i = 0; i < count; ++i) groups.push_back(std::make_shared<Group>(ranks));
    return groups;
  };
  auto fsdp = groups(mesh.data.size, mesh.fsdp.size), data = groups(mesh.fsdp.size, mesh.data.size);
  std::vector<std::shared_ptr<Communicator>> ranks;
  for (int64_t d = 0; d < mesh.data.size; ++d)
    for (int64_t f = 0; f < mesh.fsdp.size; ++f)
      ranks.push_back(
          std::make_shared<ThreadCommunicator>(std::map<Axis, ThreadCommunicator::Place>{
              {Axis::fsdp, {fsdp[d], f}}, {Axis::data, {data[f], d}}}));
  return ranks;
}

}  // namespace longshore::offload
