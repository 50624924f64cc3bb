// cuDNN's graphs of attention, made once per shape and device and kept.
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "models/ops/attention_cudnn.h"
#include "models/ops/loaded_library.h"
#include "models/ops/made_once.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // which the frontend declares and leaves to its users
}

namespace longshore::models {
namespace {

namespace fe = cudnn_frontend;
using TensorAttributes = fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<TensorAttributes>;

void check(fe::error_t status, const std::string& what) {
  if (status.is_bad()) throw Error(what + ": " + status.get_message());
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw Error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(std::string("cuDNN: ") + what + ": " + fe::detail::get_error_string(status));
}

// --- graphs

enum class Pass { forward, backward };

// Names of operands within a graph.
enum Operand : int64_t { q = 1, k, v, out, log_sum_exp, dout, dq, dk, dv };

using Operands = std::unordered_map<int64_t, void*>;

// Heads of [B,T,H*D], seen as [B,H,T,D].
TensorAttributes& describe(TensorAttributes& tensor, Operand operand, const CudnnAttention& a) {
  const bool of_keys = operand == k || operand == v || operand == dk || operand == dv;
  const int64_t heads = of_keys ? a.key_heads : a.heads;
  const int64_t row = (of_keys ? a.key_heads_of_row : a.heads_of_row) * a.head_dim;
  return tensor.set_uid(operand)
      .set_dim({a.rows, heads, a.length, a.head_dim})
      .set_stride({a.length * row, a.head_dim, row, 1});
}

TensorAttributes& describe_log_sum_exp(TensorAttributes& tensor, const CudnnAttention& a) {
  return tensor.set_uid(log_sum_exp)
      .set_dim({a.rows, a.heads, a.length, 1})
      .set_stride({a.heads * a.length, a.length, 1, 1})
      .set_alignment(sizeof(float))  // a part may begin anywhere
      .set_data_type(fe::DataType_t::FLOAT);
}

// A query sees no key after its own, and with a window of W, its own and W - 1 before it.
template <class Attributes>
Attributes attributes_of(const CudnnAttention& a) {
  Attributes attributes;
  attributes.set_name("attention")
      .set_attn_scale(static_cast<float>(a.scale))
      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  if (a.window != 0) attributes.set_diagonal_band_left_bound(static_cast<int>(a.window));
  return attributes;
}

Tensor input(fe::graph::Graph& graph, Operand operand, const CudnnAttention& a) {
  TensorAttributes attributes;
  return graph.tensor(describe(attributes, operand, a));
}

void add_forward(fe::graph::Graph& graph, const CudnnAttention& a) {
  auto attributes = attributes_of<fe::graph::SDPA_attributes>(a).set_generate_stats(true);
  auto [context, stats] =
      graph.sdpa(input(graph, q, a), input(graph, k, a), input(graph, v, a), attributes);
  describe(*context, out, a).set_output(true);
  describe_log_sum_exp(*stats, a).set_output(true);
}

void add_backward(fe::graph::Graph& graph, const CudnnAttention& a) {
  auto attributes =
      attributes_of<fe::graph::SDPA_backward_attributes>(a).set_deterministic_algorithm(true);
  TensorAttributes stats;
  auto [q_gradient, k_gradient, v_gradient] = graph.sdpa_backward(
      input(graph, q, a), input(graph, k, a), input(graph, v, a), input(graph, out, a),
      input(graph, dout, a), graph.tensor(describe_log_sum_exp(stats, a)), attributes);
  describe(*q_gradient, dq, a).set_output(true);
  describe(*k_gradient, dk, a).set_output(true);
  describe(*v_gradient, dv, a).set_output(true);
}

// --- plans

struct Key {
  CudnnAttention attention;
  Pass pass;
  int device;

  auto operator<=>(const Key&) const = default;
};

struct Plan {
  fe::graph::Graph graph;
  int64_t index = 0;  // of what the heuristics offer
};

int compute_capability(int device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "asking for the compute capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "asking for the compute capability");
  return 10 * major + minor;
}

std::string text(const Key& key) {
  const CudnnAttention& a = key.attention;
  return std::string(key.pass == Pass::forward ? "attention" : "attention_grad") + " by cuDNN of " +
         std::to_string(a.rows) + " rows of " + std::to_string(a.length) + ", " +
         std::to_string(a.heads) + " heads on " + std::to_string(a.key_heads) + " of " +
         std::to_string(a.head_dim) + (a.window ? ", window=" + std::to_string(a.window) : "");
}

const std::string kAdvice = "; `backend: cuda_composed` runs ATen's attention instead";

// The first plan, best first, that takes no more workspace than was planned for. The handle may be
// any of that device.
std::unique_ptr<const Plan> make(const Key& key, cudnnHandle_t handle) {
  auto plan = std::make_unique<Plan>();
  fe::graph::Graph& graph = plan->graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(compute_capability(key.device));
  if (key.pass == Pass::forward)
    add_forward(graph, key.attention);
  else
    add_backward(graph, key.attention);
  const std::string what = text(key) + kAdvice;
  check(graph.validate(), what);
  check(graph.build_operation_graph(handle), what);
  check(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), what);

  const int64_t planned = key.pass == Pass::forward ? cudnn_forward_workspace(key.attention)
                                                    : cudnn_backward_workspace(key.attention);
  int64_t least = std::numeric_limits<int64_t>::max();
  std::string refusal;
  for (; plan->index < graph.get_execution_plan_count(); ++plan->index) {
    if (fe::error_t status = graph.build_plan_at_index(plan->index); status.is_bad()) {
      refusal = status.get_message();
      continue;
    }
    const int64_t bytes = graph.get_workspace_size_plan_at_index(plan->index);
    if (bytes <= planned) return plan;
    least = std::min(least, bytes);
  }
  if (least == std::numeric_limits<int64_t>::max()) throw Error(what + ": " + refusal);
  throw Error(text(key) + " takes at least " + std::to_string(least) +
              " bytes of workspace, where " + std::to_string(planned) + " were planned" + kAdvice);
}

// --- the library

void load_library() {
  static const bool loaded = [] {
    fe::cudnn_dlhandle = loaded_library("libcudnn.so.9");
    // Left alone, the frontend takes a libcudart.so.12 wherever the loader finds one.
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", "libcudart.so.13", 0);
    return true;
  }();
  static_cast<void>(loaded);
}

// A thread's own on that device, never destroyed, as plans are. To be told of a stream takes a
// handle a while.
cudnnHandle_t handle_of(int device, void* stream) {
  struct Handle {
    cudnnHandle_t handle = nullptr;
    void* stream = nullptr;
  };
  thread_local std::map<int, Handle> handles;
  Handle& known = handles[device];
  if (!known.handle) check(fe::detail::create_handle(&known.handle), "making a handle");
  if (known.stream != stream) {
    check(fe::detail::set_stream(known.handle, static_cast<cudaStream_t>(stream)),
          "choosing the stream");
    known.stream = stream;
  }
  return known.handle;
}

void run(const CudnnAttention& attention, Pass pass, const KernelCall& call, Operands& operands) {
  load_library();
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device");
  cudnnHandle_t handle = handle_of(device, call.stream);
  const Key key{attention, pass, device};
  const Plan& plan = made_once<Plan>(key, [&] { return make(key, handle); });
  check(plan.graph.execute_plan_at_index(handle, operands, call.workspace.data(), plan.index),
        "cuDNN: running attention");
}

}  // namespace

void attention_cuda(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  const Type &q_type = call.in[0].type, &k_type = call.in[1].type;
  if (!cudnn_serves(attrs, q_type, k_type)) return attention_cuda_aten(call);
  Operands operands{{q, call.in[0].data},
                    {k, call.in[1].data},
                    {v, call.in[2].data},
                    {out, call.out[0].data},
                    {log_sum_exp, call.out[1].data}};
  run(cudnn_forward(attrs, q_type, k_type), Pass::forward, call, operands);
}

void attention_grad_cuda(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  const Type &q_type = call.in[1].type, &k_type = call.in[2].type;
  if (!cudnn_serves(attrs, q_type, k_type)) return attention_grad_cuda_aten(call);
  const CudnnAttention part = cudnn_backward(attrs, q_type, k_type);
  const int64_t group = part.heads / part.key_heads;
  // From the row and key/value head on where a part begins.
  for (int64_t row = 0; row < q_type.shape[0]; row += part.rows)
    for (int64_t key_head = 0; key_head < part.key_heads_of_row; key_head += part.key_heads) {
      auto of = [&](const Ref& ref, int64_t head) -> void* {
        const Shape& shape = ref.type.shape;
        const int64_t at = row * shape[1] * shape[2] + head * part.head_dim;
        return ref.as<std::byte>() + at * size_bytes(ref.type.dtype);
      };
      auto of_queries = [&](const Ref& ref) { return of(ref, key_head * group); };
      auto of_keys = [&](const Ref& ref) { return of(ref, key_head); };
      const int64_t sums_before = (row * part.heads_of_row + key_head * group) * part.length;
      Operands operands{
          {dout, of_queries(call.in[0])}, {q, of_queries(call.in[1])},
          {k, of_keys(call.in[2])},       {v, of_keys(call.in[3])},
          {out, of_queries(call.in[4])},  {log_sum_exp, call.in[5].as<float>() + sums_before},
          {dq, of_queries(call.out[0])},  {dk, of_keys(call.out[1])},
          {dv, of_keys(call.out[2])}};
      run(part, Pass::backward, call, operands);
    }
}

}  // namespace longshore::models
