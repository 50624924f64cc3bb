#include "tests/models/emulated_kernels.h"

#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include <map>

#include "models/ops/add_bias/add_bias.h"
#include "models/ops/add_bias/add_bias_body.h"
#include "models/ops/attention/attention.h"
#include "models/ops/attention/attention_blocks_body.h"
#include "models/ops/attention/attention_cudnn.h"
#include "models/ops/attention/attention_mask_body.h"
#include "models/ops/elementwise/elementwise_body.h"
#include "models/ops/embedding/embedding.h"
#include "models/ops/embedding/embedding_body.h"
#include "models/ops/gelu.h"
#include "models/ops/kernels/aten.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear/linear_kernels.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy_body.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/rms_norm/rms_norm_body.h"
#include "models/ops/rope/rope.h"
#include "models/ops/rope/rope_body.h"
#include "models/ops/soft_cap.h"
#include "models/ops/square_sum/square_sum.h"
#include "models/ops/square_sum/square_sum_body.h"
#include "models/ops/swiglu.h"
#include "models/ops/update/adamw.h"
#include "models/ops/update/lion.h"
#include "models/ops/update/sgd.h"
#include "models/ops/update/update_body.h"
#include "tests/models/emulated_cudnn.h"
#include "tests/models/fiber_group.h"
#include "tests/models/serial_group.h"

namespace longshore::models {
namespace {

using Run = void (*)(const KernelCall&);

template <Emulated emulated>
auto launcher() {
  if constexpr (emulated == Emulated::by_32)
    return SerialLauncher(32, PlayOrder::ascending);
  else if constexpr (emulated == Emulated::by_256)
    return SerialLauncher(256, PlayOrder::descending);
  else if constexpr (emulated == Emulated::ahead)
    return FiberLauncher(64, PlayOrder::ascending);
  else
    return FiberLauncher(64, PlayOrder::descending);
}

template <auto arguments, Emulated emulated>
void emulate(const KernelCall& call) {
  launch(arguments(call), launcher<emulated>());
}

template <Emulated emulated, class Arguments>
void emulate_launch(const Arguments& arguments, void*) {
  launch(arguments, launcher<emulated>());
}

// cuBLASLt's products, of the matrices that it is told of.
void emulate_product(const Matmuls& matmuls, const void* a, const void* b, const void* sum, void* c,
                     std::span<std::byte> workspace, void*) {
  const Matmul& matmul = matmuls.matmul;
  EXPECT_GE(std::ssize(workspace), cublaslt_workspace_bytes(matmuls));
  const ColumnMajorProduct product = column_major(matmuls);
  for (int64_t i = 0; i < matmuls.count; ++i) {
    auto matrix = [&](const void* data, const ColumnMajor& stored, Dtype dtype) {
      auto* begin = static_cast<const std::byte*>(data) + i * stored.next * size_bytes(dtype);
      return at::from_blob(const_cast<std::byte*>(begin), {stored.rows, stored.columns},
                           {1, stored.stride}, at::TensorOptions(scalar_type(dtype)));
    };
    auto operand = [&](const void* data, const ColumnMajor& stored, bool transpose) {
      const at::Tensor as_stored = matrix(data, stored, matmul.ab).to(at::kFloat);
      return transpose ? as_stored.t() : as_stored;
    };
    at::Tensor out = at::mm(operand(b, product.first, product.transpose_first),
                            operand(a, product.second, product.transpose_second));
    if (matmul.into == Into::add) out.add_(matrix(sum, product.out, matmul.c));
    matrix(c, product.out, matmul.c).copy_(out);
  }
}

template <auto run>
void emulate_with_product(const KernelCall& call) {
  run(call, emulate_product);
}

template <Emulated emulated>
void emulate_loss(const KernelCall& call) {
  run_linear_cross_entropy(call, emulate_product,
                           emulate_launch<emulated, CrossEntropyRowsArguments>,
                           emulate_launch<emulated, TotalLossArguments>);
}
template <Emulated emulated>
void emulate_loss_grad(const KernelCall& call) {
  run_linear_cross_entropy_grad(call, emulate_product,
                                emulate_launch<emulated, CrossEntropyRowsArguments>,
                                emulate_launch<emulated, TotalLossArguments>);
}

template <Emulated emulated>
constexpr AttentionBlockParts kBlockParts{
    .multiply = emulate_product,
    .softmax = emulate_launch<emulated, AttentionSoftmaxArguments>,
    .softmax_grad = emulate_launch<emulated, AttentionSoftmaxGradArguments>,
    .zero = emulate_launch<emulated, ZeroArguments>,
    .round = emulate_launch<emulated, RoundArguments>};

// Half of them emulate a GPU on which cuDNN's graphs serve most, the others one on which they serve
// nothing.
template <Emulated emulated>
constexpr int kComputeCapability =
    emulated == Emulated::by_32 || emulated == Emulated::ahead ? 90 : 0;

template <Emulated emulated>
void emulate_attention(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  const Type &q = call.in[0].type, &k = call.in[1].type;
  if (cudnn_serves(attrs, q, k, CudnnPass::forward, kComputeCapability<emulated>))
    run_attention_graphs(call, emulate_cudnn_graph,
                         emulate_launch<emulated, AttentionMaskArguments>);
  else if (flash_serves(attrs, q.dtype))
    attention_composed(call);
  else
    run_attention_blocks(call, kBlockParts<emulated>);
}
template <Emulated emulated>
void emulate_attention_grad(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  const Type &q = call.in[1].type, &k = call.in[2].type;
  if (cudnn_serves(attrs, q, k, CudnnPass::backward, kComputeCapability<emulated>))
    run_attention_grad_graphs(call, emulate_cudnn_graph,
                              emulate_launch<emulated, AttentionMaskArguments>);
  else if (flash_serves(attrs, q.dtype))
    attention_grad_composed(call);
  else
    run_attention_grad_blocks(call, kBlockParts<emulated>);
}

template <Emulated emulated>
Run run_of(const Op& op) {
  static const std::map<const Op*, Run> runs{
      {&adamw_op, emulate<arguments_of_rule<AdamWElement>, emulated>},
      {&add_bias_grad_op, emulate<add_bias_grad_arguments, emulated>},
      {&attention_op, emulate_attention<emulated>},
      {&attention_grad_op, emulate_attention_grad<emulated>},
      {&clip_op, emulate<clip_arguments, emulated>},
      {&embedding_grad_op, emulate<embedding_grad_arguments, emulated>},
      {&geglu_op, emulate<arguments_of<Elementwise::geglu>, emulated>},
      {&geglu_grad_op, emulate<arguments_of<Elementwise::geglu_grad>, emulated>},
      {&gelu_op, emulate<arguments_of<Elementwise::gelu>, emulated>},
      {&gelu_grad_op, emulate<arguments_of<Elementwise::gelu_grad>, emulated>},
      {&lion_op, emulate<arguments_of_rule<LionElement>, emulated>},
      {&sgd_op, emulate<arguments_of_rule<SgdElement>, emulated>},
      {&linear_op, emulate_with_product<run_linear>},
      {&linear_input_grad_op, emulate_with_product<run_linear_input_grad>},
      {&linear_weight_grad_op, emulate_with_product<run_linear_weight_grad>},
      {&linear_cross_entropy_op, emulate_loss<emulated>},
      {&linear_cross_entropy_grad_op, emulate_loss_grad<emulated>},
      {&rms_norm_op, emulate<rms_norm_arguments, emulated>},
      {&rms_norm_grad_op, emulate<rms_norm_grad_arguments, emulated>},
      {&rope_op, emulate<rope_arguments, emulated>},
      {&rope_table_op, emulate<rope_table_arguments, emulated>},
      {&soft_cap_op, emulate<soft_cap_arguments, emulated>},
      {&soft_cap_grad_op, emulate<soft_cap_grad_arguments, emulated>},
      {&square_sum_op, emulate<square_sum_arguments, emulated>},
      {&sum_in_order_op, emulate<sum_in_order_arguments, emulated>},
      {&swiglu_op, emulate<arguments_of<Elementwise::swiglu>, emulated>},
      {&swiglu_grad_op, emulate<arguments_of<Elementwise::swiglu_grad>, emulated>},
  };
  const auto found = runs.find(&op);
  return found == runs.end() ? nullptr : found->second;
}

}  // namespace

Kernel emulated_kernel(const Op& op, Emulated emulated) {
  auto run = [&] {
    switch (emulated) {
      case Emulated::by_32:
        return run_of<Emulated::by_32>(op);
      case Emulated::by_256:
        return run_of<Emulated::by_256>(op);
      case Emulated::ahead:
        return run_of<Emulated::ahead>(op);
      case Emulated::behind:
        break;
    }
    return run_of<Emulated::behind>(op);
  };
  return {run(), op.cuda.workspace_bytes};
}

}  // namespace longshore::models
