// cuDNN's graphs of attention, made once per shape and device and kept.
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/ops/attention/attention_cudnn.h"
#include "longshore/models/ops/kernels/current_gpu.h"
#include "longshore/models/ops/kernels/loaded_library.h"
#include "longshore/models/ops/kernels/made_once.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // which the frontend declares and leaves to its users
}

namespace longshore::models {
namespace {

namespace fe = cudnn_frontend;
namespace modifiers = cudnn_frontend::graph::attn::score_modifiers;
using TensorAttributes = fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<TensorAttributes>;

void check(fe::error_t status, const std::string& what) {
  if (status.is_bad()) throw Error(what + ": " + status.get_message());
}

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(std::string("cuDNN: ") + what + ": " + fe::detail::get_error_string(status));
}

// --- graphs

// Heads of [B,T,H*D], seen as [B,H,T,D].
TensorAttributes& describe(TensorAttributes& tensor, CudnnOperand operand,
                           const CudnnAttention& a) {
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

Tensor input(fe::graph::Graph& graph, CudnnOperand operand, const CudnnAttention& a) {
  TensorAttributes attributes;
  return graph.tensor(describe(attributes, operand, a));
}

TensorAttributes& describe_mask(TensorAttributes& tensor, const CudnnAttention& a) {
  const int64_t width = attention_mask_width(a.length);
  return tensor.set_uid(mask)
      .set_dim({a.rows, 1, a.length, a.length})
      .set_stride({a.length * width, a.length * width, width, 1});
}

// A query sees no key after its own, and with a window of W, its own and W - 1 before it.
template <class Attributes>
void set_band(Attributes& attributes, const CudnnAttention& a) {
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  if (a.window != 0) attributes.set_diagonal_band_left_bound(static_cast<int>(a.window));
}

// Hides the same keys where scores are capped: graphs with a score function of ours take no band.
Tensor within_band(const std::shared_ptr<fe::graph::Graph>& graph, const Tensor& scores,
                   const CudnnAttention& a) {
  std::optional<int64_t> window;
  if (a.window != 0) window = a.window;
  return modifiers::sliding_window_mask(graph, scores, fe::DiagonalAlignment_t::TOP_LEFT, window, 0,
                                        a.length, a.length, nullptr, nullptr);
}

Tensor cap_of(const CudnnAttention& a) {
  return std::make_shared<TensorAttributes>(static_cast<float>(a.soft_cap));
}

// What both passes have.
template <class Attributes>
Attributes attributes_of(fe::graph::Graph& graph, const CudnnAttention& a,
                         const std::shared_ptr<modifiers::Softcap>& soft_cap) {
  Attributes attributes;
  attributes.set_name("attention").set_attn_scale(static_cast<float>(a.scale));
  if (a.is_masked) {
    TensorAttributes tensor;
    attributes.set_bias(graph.tensor(describe_mask(tensor, a)));
  }
  if (a.soft_cap != 0)
    attributes.set_score_mod([=](std::shared_ptr<fe::graph::Graph> part, Tensor scores) {
      const Tensor capped = soft_cap->forward(part, scores, cap_of(a));
      return a.is_causal ? within_band(part, capped, a) : capped;
    });
  else if (a.is_causal)
    set_band(attributes, a);
  return attributes;
}

void add_forward(fe::graph::Graph& graph, const CudnnAttention& a) {
  auto soft_cap = std::make_shared<modifiers::Softcap>();
  // What serves every mask, whatever cuDNN is loaded: left alone, the frontend takes another engine
  // where nothing is masked, and from cuDNN 9.21 on elsewhere, too.
  auto attributes = attributes_of<fe::graph::SDPA_attributes>(graph, a, soft_cap)
                        .set_generate_stats(true)
                        .set_implementation(fe::AttentionImplementation_t::COMPOSITE);
  auto [context, stats] =
      graph.sdpa(input(graph, q, a), input(graph, k, a), input(graph, v, a), attributes);
  describe(*context, out, a).set_output(true);
  describe_log_sum_exp(*stats, a).set_output(true);
}

void add_backward(fe::graph::Graph& graph, const CudnnAttention& a) {
  auto soft_cap = std::make_shared<modifiers::Softcap>();
  auto attributes = attributes_of<fe::graph::SDPA_backward_attributes>(graph, a, soft_cap)
                        .set_deterministic_algorithm(a.deterministic);
  if (a.soft_cap != 0)
    attributes.set_score_mod_bprop([=](std::shared_ptr<fe::graph::Graph> part, Tensor gradients) {
      return soft_cap->backward(part, gradients, cap_of(a));
    });
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
  CudnnPass pass;
  int device;

  auto operator<=>(const Key&) const = default;
};

struct Plan {
  fe::graph::Graph graph;
  int64_t index = 0;  // of what the heuristics offer
  int64_t workspace_bytes = 0;
};

// What plans are made for: through any handle of it or, where it is not here, by its properties.
struct Gpu {
  int compute_capability;
  cudnnHandle_t handle;
  std::shared_ptr<const fe::DeviceProperties> properties;
};

std::string text(const CudnnAttention& a, CudnnPass pass) {
  return std::string(pass == CudnnPass::forward ? "attention" : "attention_grad") +
         " by cuDNN of " + std::to_string(a.rows) + " rows of " + std::to_string(a.length) + ", " +
         std::to_string(a.heads) + " heads on " + std::to_string(a.key_heads) + " of " +
         std::to_string(a.head_dim) + (a.window ? ", window=" + std::to_string(a.window) : "") +
         (a.soft_cap != 0 ? ", capped" : "") + (a.is_masked ? ", masked" : "") +
         (a.is_causal ? "" : ", not causal");
}

const std::string kAdvice = "; `backend: cuda_composed` runs ATen's attention instead";

// The first plan, best first, that takes no more workspace than was planned for.
std::unique_ptr<const Plan> make(const CudnnAttention& attention, CudnnPass pass, const Gpu& gpu) {
  auto plan = std::make_unique<Plan>();
  fe::graph::Graph& graph = plan->graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(gpu.compute_capability);
  if (gpu.properties) graph.set_device_properties(gpu.properties);
  if (pass == CudnnPass::forward)
    add_forward(graph, attention);
  else
    add_backward(graph, attention);
  const std::string what = text(attention, pass) + kAdvice;
  check(graph.validate(), what);
  check(graph.build_operation_graph(gpu.handle), what);
  check(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), what);

  const int64_t planned = cudnn_graph_workspace(attention, pass);
  int64_t least = std::numeric_limits<int64_t>::max();
  std::string refusal;
  for (; plan->index < graph.get_execution_plan_count(); ++plan->index) {
    if (fe::error_t status = graph.build_plan_at_index(plan->index); status.is_bad()) {
      refusal = status.get_message();
      continue;
    }
    plan->workspace_bytes = graph.get_workspace_size_plan_at_index(plan->index);
    if (plan->workspace_bytes <= planned) return plan;
    least = std::min(least, plan->workspace_bytes);
  }
  if (least == std::numeric_limits<int64_t>::max()) throw Error(what + ": " + refusal);
  throw Error(text(attention, pass) + " takes at least " + std::to_string(least) +
              " bytes of workspace, where " + std::to_string(planned) + " were planned" + kAdvice);
}

// --- the library

void load_library() {
  static const bool loaded = [] {
    // cuDNN compiles its kernels. It would look for the compiler only where pip's wheels and the
    // system have it, and not where this program was told that it is.
    dlopen("libnvrtc.so.13", RTLD_NOW);
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

}  // namespace

void run_cudnn_graph(const CudnnAttention& part, CudnnPass pass, CudnnOperands& operands,
                     std::span<std::byte> workspace, void* stream) {
  load_library();
  const int device = current_device();
  cudnnHandle_t handle = handle_of(device, stream);
  const Plan& plan = made_once<Plan>(Key{part, pass, device}, [&] {
    return make(part, pass, {compute_capability(device), handle, nullptr});
  });
  check(plan.graph.execute_plan_at_index(handle, operands, workspace.data(), plan.index),
        "cuDNN: running attention");
}

int64_t cudnn_plan_workspace(const CudnnAttention& part, CudnnPass pass, int compute_capability,
                             const std::string& properties) {
  load_library();
  auto described = std::make_shared<fe::DeviceProperties>();
  check(described->deserialize({properties.begin(), properties.end()}), "properties of a GPU");
  return make(part, pass, {compute_capability, nullptr, described})->workspace_bytes;
}

bool cudnn_serves_here(const AttentionAttrs& attrs, const Type& q, const Type& k, CudnnPass pass) {
  return cudnn_serves(attrs, q, k, pass, compute_capability(current_device()));
}

}  // namespace longshore::models
