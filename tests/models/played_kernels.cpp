#include "tests/models/played_kernels.h"

#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include <map>

#include "models/ops/adamw_body.h"
#include "models/ops/add_bias.h"
#include "models/ops/add_bias_body.h"
#include "models/ops/aten.h"
#include "models/ops/attention.h"
#include "models/ops/attention_blocks_body.h"
#include "models/ops/attention_cudnn.h"
#include "models/ops/attention_mask_body.h"
#include "models/ops/elementwise_body.h"
#include "models/ops/embedding.h"
#include "models/ops/embedding_body.h"
#include "models/ops/gelu.h"
#include "models/ops/linear.h"
#include "models/ops/linear_cross_entropy_body.h"
#include "models/ops/linear_kernels.h"
#include "models/ops/rms_norm.h"
#include "models/ops/rms_norm_body.h"
#include "models/ops/rope.h"
#include "models/ops/rope_body.h"
#include "models/ops/soft_cap.h"
#include "models/ops/square_sum.h"
#include "models/ops/square_sum_body.h"
#include "models/ops/swiglu.h"
#include "tests/models/fiber_group.h"
#include "tests/models/played_cudnn.h"
#include "tests/models/serial_group.h"

namespace longshore::models {
namespace {

using Run = void (*)(const KernelCall&);

template <Played played>
auto launcher() {
  if constexpr (played == Played::by_32)
    return SerialLauncher(32, PlayOrder::ascending);
  else if constexpr (played == Played::by_256)
    return SerialLauncher(256, PlayOrder::descending);
  else if constexpr (played == Played::ahead)
    return FiberLauncher(64, PlayOrder::ascending);
  else
    return FiberLauncher(64, PlayOrder::descending);
}

template <auto arguments, Played played>
void play(const KernelCall& call) {
  launch(arguments(call), launcher<played>());
}

template <Played played, class Arguments>
void play_launch(const Arguments& arguments, void*) {
  launch(arguments, launcher<played>());
}

// cuBLASLt's products, of the matrices that it is told of.
void play_product(const Matmuls& matmuls, const void* a, const void* b, const void* sum, void* c,
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
void play_with_product(const KernelCall& call) {
  run(call, play_product);
}

template <Played played>
void play_loss(const KernelCall& call) {
  run_linear_cross_entropy(call, play_product, play_launch<played, CrossEntropyRowsArguments>,
                           play_launch<played, TotalLossArguments>);
}
template <Played played>
void play_loss_grad(const KernelCall& call) {
  run_linear_cross_entropy_grad(call, play_product, play_launch<played, CrossEntropyRowsArguments>,
                                play_launch<played, TotalLossArguments>);
}

template <Played played>
constexpr AttentionBlockParts kBlockParts{
    .multiply = play_product,
    .softmax = play_launch<played, AttentionSoftmaxArguments>,
    .softmax_grad = play_launch<played, AttentionSoftmaxGradArguments>,
    .zero = play_launch<played, ZeroArguments>,
    .round = play_launch<played, RoundArguments>};

// Half of them play a GPU on which cuDNN's graphs serve most, the others one on which they serve
// nothing.
template <Played played>
constexpr int kComputeCapability = played == Played::by_32 || played == Played::ahead ? 90 : 0;

template <Played played>
void play_attention(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  const Type &q = call.in[0].type, &k = call.in[1].type;
  if (cudnn_serves(attrs, q, k, kComputeCapability<played>))
    run_attention_graphs(call, play_cudnn_graph, play_launch<played, AttentionMaskArguments>);
  else if (flash_serves(attrs, q.dtype))
    attention_composed(call);
  else
    run_attention_blocks(call, kBlockParts<played>);
}
template <Played played>
void play_attention_grad(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  const Type &q = call.in[1].type, &k = call.in[2].type;
  if (cudnn_serves(attrs, q, k, kComputeCapability<played>))
    run_attention_grad_graphs(call, play_cudnn_graph, play_launch<played, AttentionMaskArguments>);
  else if (flash_serves(attrs, q.dtype))
    attention_grad_composed(call);
  else
    run_attention_grad_blocks(call, kBlockParts<played>);
}

template <Played played>
Run run_of(const Op& op) {
  static const std::map<const Op*, Run> runs{
      {&adamw_op, play<adamw_arguments, played>},
      {&add_bias_grad_op, play<add_bias_grad_arguments, played>},
      {&attention_op, play_attention<played>},
      {&attention_grad_op, play_attention_grad<played>},
      {&clip_op, play<clip_arguments, played>},
      {&embedding_grad_op, play<embedding_grad_arguments, played>},
      {&geglu_op, play<arguments_of<Elementwise::geglu>, played>},
      {&geglu_grad_op, play<arguments_of<Elementwise::geglu_grad>, played>},
      {&gelu_op, play<arguments_of<Elementwise::gelu>, played>},
      {&gelu_grad_op, play<arguments_of<Elementwise::gelu_grad>, played>},
      {&linear_op, play_with_product<run_linear>},
      {&linear_input_grad_op, play_with_product<run_linear_input_grad>},
      {&linear_weight_grad_op, play_with_product<run_linear_weight_grad>},
      {&linear_cross_entropy_op, play_loss<played>},
      {&linear_cross_entropy_grad_op, play_loss_grad<played>},
      {&rms_norm_op, play<rms_norm_arguments, played>},
      {&rms_norm_grad_op, play<rms_norm_grad_arguments, played>},
      {&rope_op, play<rope_arguments, played>},
      {&rope_table_op, play<rope_table_arguments, played>},
      {&soft_cap_op, play<soft_cap_arguments, played>},
      {&soft_cap_grad_op, play<soft_cap_grad_arguments, played>},
      {&square_sum_op, play<square_sum_arguments, played>},
      {&sum_in_order_op, play<sum_in_order_arguments, played>},
      {&swiglu_op, play<arguments_of<Elementwise::swiglu>, played>},
      {&swiglu_grad_op, play<arguments_of<Elementwise::swiglu_grad>, played>},
  };
  const auto found = runs.find(&op);
  return found == runs.end() ? nullptr : found->second;
}

}  // namespace

Kernel played_kernel(const Op& op, Played played) {
  auto run = [&] {
    switch (played) {
      case Played::by_32:
        return run_of<Played::by_32>(op);
      case Played::by_256:
        return run_of<Played::by_256>(op);
      case Played::ahead:
        return run_of<Played::ahead>(op);
      case Played::behind:
        break;
    }
    return run_of<Played::behind>(op);
  };
  return {run(), op.cuda.workspace_bytes};
}

}  // namespace longshore::models
