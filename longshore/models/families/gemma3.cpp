// Gemma 3 with images: SigLIP's tower, of whose patches windows are averaged to 256 rows, before
// Gemma 3's text model; the rows of an image see each other (Gemma Team 2025, arXiv 2503.19786).
#include "longshore/models/families/vision_config.h"

namespace longshore::models {

const VisionFamily kGemma3{.name = "gemma3",
                           .hf_class = "Gemma3ForConditionalGeneration",
                           .decoders = {&kGemma3Text},
                           .pools = true};

}  // namespace longshore::models
