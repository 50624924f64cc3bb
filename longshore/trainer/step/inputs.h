// read_probe_inputs() reads one batch from a safetensors file, as tests/goldens and transformers
// name its tensors.
#pragma once

#include <cstdint>
#include <filesystem>

#include "longshore/data/rows/batches.h"
#include "longshore/models/families/decoder_config.h"

namespace longshore::trainer {

struct ProbeInputs {
  data::Batch batch;
  bool has_labels = false;  // without, no target is trained
  int64_t images = 0;       // of all rows; pixels are of the model's dtype
};

// Reads tensors [B,T] of int64 or int32:
//
//   input_ids       token ids below `vocabulary`
//   labels          optional; labels[b,t] is the target of position t - 1, -100 is not trained;
//                   labels[b,0] is the target of nothing
//   attention_mask  optional; 1, then 0 where a row is padded on its right. Nothing before the
//                   padding sees it, so it only must not be trained: what positions there give
//                   means nothing
//   segment_ids     optional; runs of equal ids are documents that do not see each other
//   position_ids    optional; otherwise 0, 1, ... in each row
//
// and of a model that reads images
//
//   pixel_values    float32 [N,3,S,S], N a multiple of B, in the order of the rows that have them;
//                   each image has its tokens in input_ids. Rows may have different numbers of
//                   images
//   token_type_ids  PaliGemma: 0 for images and prompt, which see each other, and 1 behind them.
//                   Gemma 3: 1 for tokens of images
//
// The file may also have results of a probe. Throws DataError, naming file and tensor, for
// every other tensor, and for values that are not as said above.
ProbeInputs read_probe_inputs(const std::filesystem::path& file,
                              const models::DecoderConfig& model);

// Whether the file has pixel_values. Throws DataError where it is none.
bool has_images(const std::filesystem::path& file);

// A batch of B rows of T positions as such a file, with labels, positions and, where the batch has
// them, segments. It has [B,T+1], since a row's last target is the label of one more position,
// which nothing else reads. The file appears whole or not at all; throws FileError where the file
// system refuses, or its name is a link.
void write_probe_inputs(const std::filesystem::path& file, const data::Batch& batch);

}  // namespace longshore::trainer
