// Unicode's normalisation forms, as Hugging Face's tokenizers has them.
#pragma once

#include <string>

namespace longshore::data {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// Of valid UTF-8. Characters that are newer than Unicode 9 are neither changed nor moved. What
// becomes of the others never changes, so it does not matter what the machine's ICU knows.
std::string in_form(UnicodeForm form, std::string text);

}  // namespace longshore::data
