// Models that are small enough to follow every byte of their plans.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "longshore/models/families/decoder.h"
#include "longshore/models/ir/model.h"
#include "longshore/models/ir/program.h"

namespace longshore::offload {

// Two query heads share a key/value head, and hardly a size is a power of two.
models::DecoderConfig tiny_llama(models::Dtype dtype = models::Dtype::float32);
const models::Program& layer_program(const models::Model& model);  // of the Llama's scan

// The Llama of that name's published shape, one row of 4096 tokens.
models::DecoderConfig llama2_13b();

// The same program with these weights frozen.
models::Program with_frozen(models::Program program, std::initializer_list<std::string_view> names);

// Everything that stages can do, in one model:
//
//   patches    runs once    frozen     embedding of batch input `patches`
//   tower      scans 3      frozen
//   projector  runs once               reads what the tower makes: the decoder's `memory`
//   embed      runs once               its weight is the head's too
//   decoder    scans 3                 two kinds of layer, in the order 0 1 0; each reads the
//   carry,
//                                      `memory`, and batch inputs `positions` and `hints`, and adds
//                                      to an auxiliary loss
//   head       runs once
struct ToySizes {
  int64_t batch = 2, length = 5, width = 24, mlp_width = 40;
  int64_t heads = 3, head_dim = 8;
  int64_t vocabulary = 29, patch_vocabulary = 13, hint_vocabulary = 7;
  double norm_epsilon = 1e-5, rope_base = 100;
};
models::Model toy(const ToySizes& sizes = {});
int stage_index(const models::Model& model, std::string_view name);

}  // namespace longshore::offload
