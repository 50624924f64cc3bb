// A choice that configs and programs offer.
#pragma once

namespace longshore::data {

// Whether bos, where the tokenizer has one, and eos are put around texts and pairs.
enum class AddBosEos {
  missing,  // unless the text itself begins or ends with it
  always,
  never,
};

}  // namespace longshore::data
