// AddBosEos is the choice, in configs and programs, whether bos and eos are put around texts.
#pragma once

namespace longshore::data {

// Whether bos, where the tokenizer has one, and eos are put around texts and pairs.
enum class AddBosEos {
  missing,  // unless the text itself begins or ends with it
  always,
  never,
};

}  // namespace longshore::data
