#include "tests/emulated_gpu/cudnn_graph.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <utility>

namespace longshore::emulated {
namespace {

at::ScalarType scalar_type(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return at::kFloat;
    case CUDNN_DATA_BFLOAT16:
      return at::kBFloat16;
    case CUDNN_DATA_INT32:
      return at::kInt;
    case CUDNN_DATA_BOOLEAN:
      return at::kBool;
    default:
      throw std::runtime_error("tensors of type " + std::to_string(type));
  }
}

class Run {
 public:
  Run(const Operands& operands, const std::map<int64_t, float>& numbers)
      : operands_(operands), numbers_(numbers) {}

  void all(const Descriptor& graph) {
    std::vector<SharedDescriptor> left = graph.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
    while (!left.empty()) {
      std::vector<SharedDescriptor> later;
      for (const SharedDescriptor& op : left)
        if (!one(*op)) later.push_back(op);
      if (later.size() == left.size()) throw std::runtime_error("ops that wait for each other");
      left = std::move(later);
    }
  }

 private:
  using Name = cudnnBackendAttributeName_t;

  at::Tensor memory(const Descriptor& tensor, void* data) {
    return at::from_blob(
        data, tensor.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
        tensor.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
        at::TensorOptions(scalar_type(tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE))));
  }

  // Undefined where an op has yet to compute it.
  at::Tensor read(const Descriptor& op, Name name) {
    const Descriptor& tensor = op.child(name);
    const auto uid = tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (const auto found = computed_.find(uid); found != computed_.end()) return found->second;
    if (const auto found = numbers_.find(uid); found != numbers_.end())
      return at::full(tensor.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), found->second);
    const auto found = operands_.find(uid);
    if (found == operands_.end()) return {};
    return memory(tensor, found->second).to(at::kFloat);
  }

  bool write(const Descriptor& op, Name name, const at::Tensor& value) {
    const Descriptor& tensor = op.child(name);
    const auto uid = tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto type = scalar_type(tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE));
    const at::Tensor rounded =
        value.expand(tensor.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)).to(type);
    if (const auto found = operands_.find(uid); found != operands_.end())
      memory(tensor, found->second).copy_(rounded);
    computed_[uid] = rounded.to(at::kFloat);
    return true;
  }

  // Heads of keys for as many heads of queries.
  static at::Tensor with_heads(const at::Tensor& tensor, int64_t heads) {
    return tensor.size(1) == heads ? tensor : tensor.repeat_interleave(heads / tensor.size(1), 1);
  }

  // False where an operand is not there yet.
  bool one(const Descriptor& op) {
    switch (op.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
        at::Tensor a = read(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
        at::Tensor b = read(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
        if (!a.defined() || !b.defined()) return false;
        const int64_t heads = std::max(a.size(1), b.size(1));
        return write(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
                     at::matmul(with_heads(a, heads), with_heads(b, heads)));
      }
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduce(op);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape(op);
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(op);
      default:
        throw std::runtime_error("ops of type " + std::to_string(op.type));
    }
  }

  // The same memory by other strides: a transposition, mostly.
  bool reshape(const Descriptor& op) {
    const at::Tensor x = read(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    if (!x.defined()) return false;
    const Descriptor& from = op.child(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    const Descriptor& to = op.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    const at::Tensor memory = at::empty_strided(from.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                                                from.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES));
    memory.copy_(x);
    return write(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
                 memory.as_strided(to.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                                   to.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)));
  }

  bool reduce(const Descriptor& op) {
    at::Tensor x = read(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    if (!x.defined()) return false;
    const auto dims =
        op.child(CUDNN_ATTR_OPERATION_REDUCTION_YDESC).all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto reduction = op.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                               .one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    for (int64_t axis = 0; axis < x.dim(); ++axis) {
      if (x.size(axis) == dims[axis]) continue;
      // Neighbours fall together.
      auto split = x.sizes().vec();
      split[axis] = dims[axis];
      split.insert(split.begin() + axis + 1, x.size(axis) / dims[axis]);
      const at::Tensor groups = x.reshape(split);
      if (reduction == CUDNN_REDUCE_TENSOR_ADD)
        x = groups.sum(axis + 1);
      else if (reduction == CUDNN_REDUCE_TENSOR_MAX)
        x = groups.amax(axis + 1);
      else
        throw std::runtime_error("reductions of type " + std::to_string(reduction));
    }
    return write(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, x);
  }

  bool pointwise(const Descriptor& op) {
    const Descriptor& what = op.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = what.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    at::Tensor x, b, t, dy;
    for (auto [tensor, name] : {std::pair{&x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC},
                                std::pair{&b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC},
                                std::pair{&t, CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
                                std::pair{&dy, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC}}) {
      if (!op.has(name)) continue;
      *tensor = read(op, name);
      if (!tensor->defined()) return false;
    }
    auto give = [&](const at::Tensor& y) {
      return write(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    };
    switch (mode) {
      case CUDNN_POINTWISE_ADD:
        return give(x + b);
      case CUDNN_POINTWISE_SUB:
        return give(x - b);
      case CUDNN_POINTWISE_MUL:
        return give(x * b);
      case CUDNN_POINTWISE_DIV:
        return give(x / b);
      case CUDNN_POINTWISE_EXP:
        return give(x.exp());
      case CUDNN_POINTWISE_LOG:
        return give(x.log());
      case CUDNN_POINTWISE_TANH_FWD:
        return give(x.tanh());
      case CUDNN_POINTWISE_IDENTITY:
        return give(x);
      case CUDNN_POINTWISE_RECIPROCAL:
        return give(x.reciprocal());
      case CUDNN_POINTWISE_CMP_GE:
        return give(x >= b);
      case CUDNN_POINTWISE_CMP_GT:
        return give(x > b);
      case CUDNN_POINTWISE_CMP_LE:
        return give(x <= b);
      case CUDNN_POINTWISE_CMP_LT:
        return give(x < b);
      case CUDNN_POINTWISE_CMP_EQ:
        return give(x == b);
      case CUDNN_POINTWISE_CMP_NEQ:
        return give(x != b);
      case CUDNN_POINTWISE_LOGICAL_AND:
        return give((x != 0).logical_and(b != 0));
      case CUDNN_POINTWISE_LOGICAL_OR:
        return give((x != 0).logical_or(b != 0));
      case CUDNN_POINTWISE_BINARY_SELECT:
        return give(at::where(t != 0, x, b));
      case CUDNN_POINTWISE_GEN_INDEX: {
        const auto axis = what.one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
        std::vector<int64_t> shape(x.dim(), 1);
        shape[axis] = x.size(axis);
        return give(at::arange(x.size(axis)).to(at::kFloat).reshape(shape).expand(x.sizes()));
      }
      case CUDNN_POINTWISE_TANH_BWD: {
        const at::Tensor y = x.tanh();
        return write(op, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dy * (1 - y * y));
      }
      default:
        throw std::runtime_error("pointwise ops of mode " + std::to_string(mode));
    }
  }

  const Operands& operands_;
  const std::map<int64_t, float>& numbers_;
  std::map<int64_t, at::Tensor> computed_;
};

// Tensors of one number, which are given by value.
void find_numbers(const Descriptor& descriptor, const Operands& operands,
                  std::map<int64_t, float>& numbers) {
  for (const auto& [name, value] : descriptor.values)
    for (const SharedDescriptor& child : value.descriptors) {
      if (child->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
        find_numbers(*child, operands, numbers);
        continue;
      }
      if (!child->has(CUDNN_ATTR_TENSOR_IS_BY_VALUE) ||
          !child->one<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE))
        continue;
      const auto uid = child->one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
      const auto type = child->one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
      const void* data = operands.at(uid);
      if (type == CUDNN_DATA_FLOAT)
        numbers[uid] = *static_cast<const float*>(data);
      else if (type == CUDNN_DATA_INT32)
        numbers[uid] = static_cast<float>(*static_cast<const int32_t*>(data));
      else
        throw std::runtime_error("numbers of type " + std::to_string(type));
    }
}

}  // namespace

std::function<void()> graph_work(SharedDescriptor graph, Operands operands) {
  std::map<int64_t, float> numbers;
  find_numbers(*graph, operands, numbers);
  for (const auto& [uid, number] : numbers) operands.erase(uid);
  return [graph = std::move(graph), operands = std::move(operands), numbers = std::move(numbers)] {
    Run(operands, numbers).all(*graph);
  };
}

}  // namespace longshore::emulated
