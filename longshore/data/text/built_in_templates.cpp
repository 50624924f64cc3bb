// White space is trimmed around every tag, so that the texts do not depend on how the reader has
// set its environment.
#include "longshore/data/text/built_in_templates.h"

#include <array>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"

namespace longshore::data {
namespace {

constexpr const char* kLlama2 = R"({%- set system = messages[0]['role'] == 'system' -%}
{%- for message in (messages[1:] if system else messages) -%}
  {%- if message['role'] != ('user' if loop.index0 % 2 == 0 else 'assistant') -%}
    {{- raise_exception('expected user and assistant to take turns, the user first') -}}
  {%- endif -%}
  {%- if message['role'] == 'assistant' -%}
    {{- ' ' + message['content'] | trim + ' </s>' -}}
  {%- elif loop.first and system -%}
    {{- '<s>[INST] ' + ('<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' + message['content']) | trim + ' [/INST]' -}}
  {%- else -%}
    {{- '<s>[INST] ' + message['content'] | trim + ' [/INST]' -}}
  {%- endif -%}
{%- endfor -%}
)";

constexpr const char* kLlama3 = R"({{- '<|begin_of_text|>' -}}
{%- for message in messages -%}
  {%- if message['role'] not in ['system', 'user', 'assistant'] -%}
    {{- raise_exception('expected system, user or assistant, found the role ' + message['role']) -}}
  {%- endif -%}
  {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
{%- endif -%}
)";

constexpr const char* kGemma = R"({{- '<bos>' -}}
{%- set system = messages[0]['role'] == 'system' -%}
{%- for message in (messages[1:] if system else messages) -%}
  {%- if message['role'] != ('user' if loop.index0 % 2 == 0 else 'assistant') -%}
    {{- raise_exception('expected user and assistant to take turns, the user first') -}}
  {%- endif -%}
  {{- '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\n' -}}
  {%- if loop.first and system -%}
    {{- messages[0]['content'] + '\n\n' -}}
  {%- endif -%}
  {%- if message['content'] is string -%}
    {{- message['content'] | trim -}}
  {%- else -%}
    {%- for part in message['content'] -%}
      {{- '<start_of_image>' if part['type'] == 'image' else part['text'] | trim -}}
    {%- endfor -%}
  {%- endif -%}
  {{- '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<start_of_turn>model\n' -}}
{%- endif -%}
)";

constexpr const char* kChatml = R"({%- for message in messages -%}
  {%- if message['role'] not in ['system', 'user', 'assistant'] -%}
    {{- raise_exception('expected system, user or assistant, found the role ' + message['role']) -}}
  {%- endif -%}
  {{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\n' -}}
{%- endif -%}
)";

}  // namespace

const BuiltInTemplate& built_in_template(std::string_view name) {
  // In the order of kChatTemplates.
  static const std::array<BuiltInTemplate, kChatTemplates.size()> templates = {{
      {kLlama2, {"<s>", "</s>"}},
      {kLlama3, {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
      {kGemma, {"<bos>", "<start_of_turn>", "<end_of_turn>"}},
      {kChatml, {"<|im_start|>", "<|im_end|>"}},
  }};
  for (size_t i = 0; i < kChatTemplates.size(); ++i)
    if (name == kChatTemplates[i]) return templates[i];
  throw ConfigError("no chat template is named " + in_quotes(name) + "; there are " +
                    join(kChatTemplates) +
                    nearest_help(nearest(std::string(name), kChatTemplates)));
}

}  // namespace longshore::data
