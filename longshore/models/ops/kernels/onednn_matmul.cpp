#include "longshore/models/ops/kernels/onednn_matmul.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <memory>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/models/ops/kernels/made_once.h"

namespace longshore::models {
namespace {

struct Primitive {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
};

const dnnl::engine& engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type data_type(Dtype dtype) {
  if (dtype == Dtype::float32) return dnnl::memory::data_type::f32;
  if (dtype == Dtype::bfloat16) return dnnl::memory::data_type::bf16;
  throw InternalError(std::string("oneDNN has no matmul for ") + name(dtype));
}

dnnl::memory::desc operand(int64_t rows, int64_t columns, Dtype dtype, Layout layout, int64_t row) {
  const bool is_plain = layout == Layout::plain;
  if (row == 0) row = is_plain ? columns : rows;
  const dnnl::memory::dims strides =
      is_plain ? dnnl::memory::dims{row, 1} : dnnl::memory::dims{1, row};
  return {{rows, columns}, data_type(dtype), strides};
}

std::string text(const Matmul& matmul) {
  return "matmul of " + std::to_string(matmul.m) + "x" + std::to_string(matmul.k) + "x" +
         std::to_string(matmul.n) + " in " + name(matmul.ab);
}

// The threads among which a primitive divides its work: some do when they are made, some when they
// are executed.
class ThreadLimit {
 public:
  explicit ThreadLimit(Threads threads) : before_(omp_get_max_threads()) {
    if (threads == Threads::one) omp_set_num_threads(1);
  }
  ~ThreadLimit() { omp_set_num_threads(before_); }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

dnnl::matmul::primitive_desc describe(const Matmul& matmul) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (matmul.into == Into::add) {
    dnnl::post_ops post_ops;
    post_ops.append_sum(1.f);
    attributes.set_post_ops(post_ops);
  }
  const dnnl::memory::desc a = operand(matmul.m, matmul.k, matmul.ab, matmul.a_layout,
                                       matmul.a_row),
                           b = operand(matmul.k, matmul.n, matmul.ab, matmul.b_layout,
                                       matmul.b_row),
                           c = operand(matmul.m, matmul.n, matmul.c, Layout::plain, matmul.c_row);
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine()};
#endif
}

Primitive make(const Matmul& matmul) {
  const ThreadLimit limit(matmul.threads);
  bool is_offered = false;
  try {
    const dnnl::matmul::primitive_desc description = describe(matmul);
    is_offered = true;
    return {description, dnnl::matmul(description)};
  } catch (const dnnl::error& error) {
    // What it has for a product it cannot make where memory lacks, of which it may say nothing.
    if (is_offered || error.status == dnnl_out_of_memory)
      throw OutOfMemoryError("oneDNN, " + text(matmul) + ": " + error.what());
    throw InternalError("oneDNN offers no " + text(matmul) + ": " + error.what());
  }
}

const Primitive& primitive(const Matmul& matmul) {
  return made_once<Primitive>(matmul,
                              [&] { return std::make_unique<const Primitive>(make(matmul)); });
}

int64_t scratchpad_bytes(const dnnl::matmul::primitive_desc& description) {
  return static_cast<int64_t>(description.scratchpad_desc().get_size());
}

// What is planned for where the processor has no such product.
Matmul as_multiplied(Matmul matmul) {
  if (matmul.ab == Dtype::bfloat16 && !multiplies_bfloat16()) matmul.ab = matmul.c = Dtype::float32;
  return matmul;
}

}  // namespace

bool multiplies_bfloat16() {
  static const bool can = [] {
    try {
      make({.m = 1, .n = 1, .k = 1, .ab = Dtype::bfloat16});
      return true;
    } catch (const InternalError&) {
      return false;
    }
  }();
  return can;
}

int64_t workspace_bytes(const Matmul& matmul) {
  return scratchpad_bytes(primitive(as_multiplied(matmul)).description);
}

int64_t most_workspace_bytes(const Matmul& largest, Varying size) {
  const auto find_most = [&] {
    const ThreadLimit limit(largest.threads);
    Matmul matmul = as_multiplied(largest);
    int64_t& rows = size == Varying::m ? matmul.m : matmul.k;
    int64_t most = 0;
    for (; rows > 0; --rows) most = std::max(most, scratchpad_bytes(describe(matmul)));
    return std::make_unique<const int64_t>(most);
  };
  return made_once<int64_t>(std::pair(largest, size), find_most);
}

void run(const Matmul& matmul, const void* a, const void* b, void* c,
         std::span<std::byte> workspace) {
  thread_local dnnl::stream stream(engine());
  const Primitive& p = primitive(matmul);
  const ThreadLimit limit(matmul.threads);
  auto memory = [](const dnnl::memory::desc& desc, const void* data) {
    return dnnl::memory(desc, engine(), const_cast<void*>(data));
  };
  try {
    p.primitive.execute(
        stream, {{DNNL_ARG_SRC, memory(p.description.src_desc(), a)},
                 {DNNL_ARG_WEIGHTS, memory(p.description.weights_desc(), b)},
                 {DNNL_ARG_DST, memory(p.description.dst_desc(), c)},
                 {DNNL_ARG_SCRATCHPAD, memory(p.description.scratchpad_desc(), workspace.data())}});
  } catch (const dnnl::error& error) {
    const std::string what = "oneDNN, " + text(matmul) + ": " + error.what();
    if (error.status == dnnl_out_of_memory) throw OutOfMemoryError(what + ": out of memory");
    throw Error(what);
  }
}

}  // namespace longshore::models
