// ATen's ops on the emulated GPU: each is computed by its CPU kernel, on the same memory, once its
// stream has come to it.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/streams.h"

namespace longshore::emulated {
namespace {

bool is_here(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda();
}

// Tensors of the GPU and what stands for them on the CPU.
class Doubles {
 public:
  c10::IValue of(const c10::IValue& value) {
    if (is_here(value)) return of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector())
        list.push_back(of(c10::IValue(tensor)).toTensor());
      return list;
    }
    if (value.isList() && value.toList().elementType()->isSubtypeOf(
                              *c10::OptionalType::create(c10::TensorType::get()))) {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& element : value.toListRef())
        list.push_back(element.isTensor() ? std::optional(of(element).toTensor()) : std::nullopt);
      return list;
    }
    if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(c10::kCPU);
    return value;
  }

  at::Tensor of(const at::Tensor& tensor) {
    at::Tensor cpu = tensor.numel() == 0
                         ? at::empty(tensor.sizes(), tensor.options().device(c10::kCPU))
                         : at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                                         tensor.options().device(c10::kCPU));
    pairs_.emplace_back(tensor, cpu);
    return cpu;
  }

  // Of a result: the tensor that it stood for, or a new one.
  at::Tensor back(const at::Tensor& result, c10::Device device) {
    for (auto& [tensor, cpu] : pairs_)
      if (cpu.is_same(result)) {
        if (cpu.sizes() != tensor.sizes()) {
          tensor.resize_(cpu.sizes());
          std::memcpy(tensor.data_ptr(), cpu.data_ptr(), cpu.nbytes());
        }
        return tensor;
      }
    const at::Tensor dense = result.is_non_overlapping_and_dense() ? result : result.contiguous();
    at::Tensor there =
        at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(device));
    if (dense.numel() > 0) std::memcpy(there.data_ptr(), dense.data_ptr(), dense.nbytes());
    return there;
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

void compute_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Device& device = Device::get();
  device.drain(*stream_of(c10::cuda::getCurrentCUDAStream().stream()));
  const Device::Access access(device);
  Doubles doubles;
  const size_t arguments = op.schema().arguments().size();
  const size_t begin = stack->size() - arguments;
  for (size_t i = begin; i < stack->size(); ++i) (*stack)[i] = doubles.of((*stack)[i]);
  op.callBoxed(stack);
  const c10::Device here(c10::kCUDA, 0);
  for (c10::IValue& value : *stack) {
    if (value.isTensor() && value.toTensor().defined())
      value = doubles.back(value.toTensor(), here);
    else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector())
        list.push_back(doubles.back(tensor, here));
      value = list;
    }
  }
}

// Those that only allocate, or look at the same memory in another way, need no kernel.
const std::set<std::string> kOfTheirOwn = {
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::as_strided",
    "aten::view",
    "aten::resize_",
    "aten::set_",
    "aten::unfold",
    "aten::_reshape_alias",
    "aten::is_set_to",
    "aten::record_stream",
    "aten::is_pinned",
    "aten::_pin_memory",
    "aten::_copy_from_and_resize",
};

class Quiet : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

const bool is_added = [] {
  Quiet quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  auto& dispatcher = c10::Dispatcher::singleton();
  auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  for (const c10::OperatorName& op :
       dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CUDA)) {
    std::string name = op.name + (op.overload_name.empty() ? "" : "." + op.overload_name);
    if (!op.name.starts_with("aten::") || kOfTheirOwn.contains(name) ||
        kOfTheirOwn.contains(op.name))
      continue;
    library->impl(name.substr(6).c_str(),
                  torch::CppFunction::makeFromBoxedFunction<&compute_on_cpu>());
  }
  for (const char* name : {"copy_"})
    library->impl(name, torch::CppFunction::makeFromBoxedFunction<&compute_on_cpu>());
  return true;
}();

}  // namespace
}  // namespace longshore::emulated
