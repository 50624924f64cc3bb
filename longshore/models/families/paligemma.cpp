// PaliGemma 1 and 2: SigLIP's tower and a linear projector before Gemma 1 or 2; images and prompt
// see each other (Beyer et al. 2024, arXiv 2407.07726; Steiner et al. 2024, arXiv 2412.03555).
#include "longshore/models/families/vision_config.h"

namespace longshore::models {

const VisionFamily kPaliGemma{.name = "paligemma",
                              .hf_class = "PaliGemmaForConditionalGeneration",
                              .decoders = {&kGemma, &kGemma2},
                              .has_prefix = true};

}  // namespace longshore::models
