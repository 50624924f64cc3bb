// What becomes of the pixels of a single transparent color, which PNG has instead of a channel.
#pragma once

namespace longshore::data {

// Transformers whitens it where a processor's config has do_convert_rgb.
enum class TransparentColor { white, kept };

}  // namespace longshore::data
