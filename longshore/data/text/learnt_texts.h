// learnt_texts() writes a conversation by a chat template, and finds in the text what is learnt.
#pragma once

#include <vector>

#include "longshore/data/jinja/jinja_text.h"
#include "longshore/data/text/chat_template.h"
#include "longshore/data/text/conversation.h"
#include "longshore/data/text/train_on.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

struct LearntText {
  std::string text;
  std::vector<JinjaSpan> learnt;  // bytes of it, in order
};

// One text, or one for each turn of the assistant that is learnt, up to its end, where the template
// writes turns otherwise once others follow; none where no message carries loss.
//
// Where the template encloses what the assistant writes in {% generation %}, that is learnt. Else
// it is what a turn adds behind the text that asks for it (add_generation_prompt), up to the last
// special token, such as the end of the turn, if white space alone follows; of a turn without such
// an end, up to the token that the next message begins with, as GLM's models end theirs. Where the
// text that asks is not what the turn begins with, such as an open <think>, they are compared up to
// where they part; and where a template writes what comes before otherwise, the turn stands behind
// the text that asks for it.
//
// Throws a DataError where the template does not allow the conversation, or one of those that it
// begins with, and where that takes too much text.
std::vector<LearntText> learnt_texts(const Conversation& conversation,
                                     const ChatTemplate& chat_template, TrainOn train_on,
                                     const Tokenizer& tokenizer);

}  // namespace longshore::data
