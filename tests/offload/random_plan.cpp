#include "tests/offload/random_plan.h"

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/model.h"
#include "longshore/offload/lowering/plan_builder.h"
#include "tests/offload/random.h"

namespace longshore::offload {
namespace {

constexpr int kInstructions = 90;
constexpr int kValuesAlive = 5;  // on each side; the next takes the place of a random one

struct Known {
  Operand operand;
  std::vector<float> value;
};

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed), builder_("random", models::Target::cpu) {}

  RandomPlan generate() {
    for (int i = 0; i < 3; ++i) fetch_input();
    for (int i = 0; i < kInstructions; ++i) {
      int choice = random_.below(12);
      if (choice < 1)
        fetch_input();
      else if (choice < 5)
        add();
      else if (choice < 7)
        send_away();
      else if (choice < 9)
        fetch_back();
      else if (choice < 10)
        overwrite();
      else if (choice < 11)
        add_in_place();
      else
        output(any(device_));
    }
    while (!host_.empty()) {
      fetch_back();
      host_.pop_back();
    }
    for (const Known& known : device_) output(known);
    result_.plan = builder_.finish();
    return std::move(result_);
  }

 private:
  models::Type a_type() {
    static constexpr int64_t kCounts[] = {1, 100, 1000, 3000};
    return {{kCounts[random_.below(4)]}};
  }

  void remember(std::vector<Known>& side, Known known) {
    if (static_cast<int>(side.size()) < kValuesAlive)
      side.push_back(std::move(known));
    else
      side[static_cast<size_t>(random_.below(kValuesAlive))] = std::move(known);
  }

  Operand temporary(const models::Type& type, MemoryKind kind) {
    return builder_.temporary("t" + std::to_string(count_++), type, kind, Category::temporaries);
  }

  Operand host_argument(const std::string& name, const models::Type& type) {
    return {builder_.argument(name, type.bytes(), MemoryKind::pinned_host, Category::batch), 0,
            type};
  }

  Known& any(std::vector<Known>& side) { return random_.one_of(side); }

  Known input(const models::Type& type) {
    std::string name = "in" + std::to_string(count_++);
    std::vector<float>& value = result_.inputs[name];
    value.resize(static_cast<size_t>(type.shape.count()));
    for (float& x : value) x = static_cast<float>(random_.below(100));
    return {host_argument(name, type), value};
  }

  void fetch_input() {
    Known from = input(a_type());
    Operand to = temporary(from.operand.type, MemoryKind::device);
    builder_.move(Lane::host_to_device, from.operand, to, {});
    remember(device_, {to, std::move(from.value)});
  }

  // While the old contents may still be on their way elsewhere.
  void overwrite() {
    Known& known = any(device_);
    Known from = input(known.operand.type);
    builder_.move(Lane::host_to_device, from.operand, known.operand, {});
    known.value = std::move(from.value);
  }

  // Of the same type as `known`, perhaps itself.
  const Known& another(const Known& known) {
    std::vector<const Known*> fitting;
    for (const Known& other : device_)
      if (other.operand.type == known.operand.type) fitting.push_back(&other);
    return *random_.one_of(fitting);
  }

  static std::vector<float> sum(const Known& a, const Known& b) {
    std::vector<float> result = a.value;
    for (size_t i = 0; i < result.size(); ++i) result[i] += b.value[i];
    return result;
  }

  void add() {
    const Known &a = any(device_), &b = another(a);
    PlanBuilder::Bindings bindings{a.operand, b.operand};
    builder_.run(models::addition(a.operand.type), bindings, {});
    remember(device_, {bindings.back(), sum(a, b)});
  }

  void add_in_place() {
    Known& a = any(device_);
    const Known& b = another(a);
    PlanBuilder::Bindings bindings{a.operand, b.operand, a.operand};
    builder_.run(models::addition(a.operand.type), bindings, {});
    a.value = sum(a, b);
  }

  void send_away() {
    const Known& from = any(device_);
    Operand to = temporary(from.operand.type, MemoryKind::pinned_host);
    builder_.move(Lane::device_to_host, from.operand, to, {});
    remember(host_, {to, from.value});
  }

  void fetch_back() {
    if (host_.empty()) return;
    const Known& from = any(host_);
    Operand to = temporary(from.operand.type, MemoryKind::device);
    builder_.move(Lane::host_to_device, from.operand, to, {});
    remember(device_, {to, from.value});
  }

  void output(const Known& known) {
    std::string name = "out" + std::to_string(count_++);
    builder_.move(Lane::device_to_host, known.operand, host_argument(name, known.operand.type), {});
    result_.outputs[name] = known.value;
  }

  Random random_;
  PlanBuilder builder_;
  RandomPlan result_;
  std::vector<Known> device_, host_;
  int count_ = 0;
};

}  // namespace

RandomPlan random_plan(uint32_t seed) { return Generator(seed).generate(); }

}  // namespace longshore::offload
