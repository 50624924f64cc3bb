#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/base/json_tree.h"
#include "longshore/data/jinja/jinja_template.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;

const std::filesystem::path kGoldens = "tests/goldens/chat_templates";

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Where the clock of the goldens stands: Friday, 27 November 2026, 12:00.
std::tm noon() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mon = 10;
  time.tm_mday = 27;
  time.tm_hour = 12;
  time.tm_wday = 5;
  time.tm_yday = 330;
  return time;
}

JinjaText rendered(const std::string& source, const ordered_json& variables) {
  return JinjaTemplate(source).render(variables, noon());
}

// What the tables below speak of.
const ordered_json& sample() {
  static const ordered_json variables = ordered_json_tree(R"({
    "l": [3, 1, 2], "n": null, "s": "héllo wörld",
    "d": {"b": 1, "A": 2, "c": [1, {"k": "v'"}]},
    "m": [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": {"c": "Y"}}, {"a": 1}],
    "tree": [{"z": 1, "y": [{"z": 2, "y": [{"z": 3}]}]}, {"z": 4}]
  })");
  return variables;
}

// ---- Conversations that transformers has rendered

// The variables that transformers gives a template.
ordered_json variables_of(const ordered_json& golden) {
  ordered_json variables = golden.value("special_tokens", ordered_json::object());
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt"})
    variables[name] = golden.contains(name) ? golden[name] : ordered_json();
  for (auto& message : variables["messages"])
    for (const char* name : {"reasoning_content", "thinking", "reasoning"})
      if (message.contains(name)) {
        const ordered_json thought = message[name];
        message["reasoning_content"] = message["thinking"] = thought;
        break;
      }
  variables.update(golden.value("kwargs", ordered_json::object()));
  return variables;
}

TEST(Jinja, WritesConversationsAsTransformersDoes) {
  const ordered_json goldens = ordered_json_tree(contents(kGoldens / "cases.json"));
  ASSERT_GT(goldens["cases"].size(), 60u);
  for (const auto& golden : goldens["cases"]) {
    const auto name = golden["template"].get<std::string>();
    SCOPED_TRACE(name + ", " + golden["name"].get<std::string>());
    const JinjaTemplate jinja(contents(kGoldens / name));
    auto render = [&] { return jinja.render(variables_of(golden), noon()); };
    if (golden.contains("error")) {
      const auto& error = golden["error"];
      if (error["raised_by_template"].get<bool>())
        EXPECT_EQ(message_of<RaisedByTemplate>(render), error["message"].get<std::string>());
      else
        EXPECT_NE(message_of<DataError>(render), "");
      continue;
    }
    const JinjaText made = render();
    EXPECT_EQ(made.text, golden["text"].get<std::string>());
    EXPECT_EQ(jinja.has_generation(), golden.contains("generation_bytes"));
    std::vector<JinjaSpan> spans;
    for (const auto& span : golden.value("generation_bytes", ordered_json::array()))
      spans.push_back({span[0], span[1]});
    EXPECT_EQ(made.generated, spans);
  }
}

// ---- The language

struct Case {
  const char *source, *expected;
};

// The elements of a list each; what is expected is what jinja2 3.1.6 of Python 3.11 writes.
const Case kExpressions[] = {
    {"1 + 2 * 3", "[7]"},
    {"-7 // 2, -7 % 3, 7 % -3, -7.5 // 2, 7.5 % -2", "[-4, 2, -2, -4.0, -0.5]"},
    {"2 ** 10, 2 ** -1, -2 ** 2, 2 ** 3 ** 2", "[1024, 0.5, 4, 64]"},
    {"1 / 2, 4 / 2, 1e16, 1e15, 1e-5, 0.0001, 1.0, -0.0, 0.1 + 0.2, 1e300 * 1e300 > 1",
     "[0.5, 2.0, 1e+16, 1000000000000000.0, 1e-05, 0.0001, 1.0, -0.0, 0.30000000000000004, True]"},
    {"0x1F, 0b101, 0o17, 1_000, 1e3, 1.5e-3", "[31, 5, 15, 1000, 1000.0, 0.0015]"},
    {"1 < 2 < 3, 1 < 2 > 3, 1 == 1.0, true == 1, [1, 2] < [1, 3], 'a' < 'b', none == none",
     "[True, False, True, True, True, True, True]"},
    {"1 in l, 'é' in s, 'x' not in s, 'b' in d, none in [none], 1 in 1 in [true] if false else "
     "'no'",
     "[True, True, True, True, True, 'no']"},
    {"none or 'x', '' or 0, 1 and 2, not 0, not not 1, x and 1",
     "['x', 0, 2, True, True, Undefined]"},
    {"1 if n, 'a' if n else 'b' if not n else 'c', (1 if n) is defined", "[Undefined, 'b', False]"},
    {"'a' 'b' ~ 1 ~ none ~ 1.5 ~ true ~ [1] ~ x, 'a' ~ 1 + 2|string",
     "['ab1None1.5True[1]', 'a12']"},
    {"'a' * 3, [1] * 2, [1] + [2], (1,) + (2,), 2 * (1,)",
     "['aaa', [1, 1], [1, 2], (1, 2), (1, 1)]"},
    {R"('\x41\u00e9\101\n\t\q\\', "it's", 'both \' and "', '\x00\x7f\u200b\u3000é')",
     R"(['AéA\n\t\\q\\', "it's", 'both \' and "', '\x00\x7f\u200b\u3000é'])"},
    {"(), (1,), (1, 2), [], {}, {'a': 1, 2: none, 1.5: true, (1, 2): 'x', true: 5}, {1: 'a', 1.0: "
     "'b'}",
     "[(), (1,), (1, 2), [], {}, {'a': 1, 2: None, 1.5: True, (1, 2): 'x', True: 5}, {1: 'b'}]"},
    {"l[0], l[-1], l[5] is defined, l[1:], l[::-1], l[::2], l[5:0:-2], l[-100:100], l.0",
     "[3, 2, False, [1, 2], [2, 1, 3], [3, 2], [2], [3, 1, 2], 3]"},
    {"s[1], s[-1], s[1:4], s[::-1], s[100] is defined, s[::2]",
     "['é', 'd', 'éll', 'dlröw olléh', False, 'hlowrd']"},
    {"d.b, d['b'], d.c[1].k, d.c.1.k, d.nope is defined, d['nope'] is defined, m[0].b.c, m[2].b is "
     "defined",
     R"([1, 1, "v'", "v'", False, False, 'x', False])"},
    {"d.items is callable, {'items': 1}.items is callable, {'items': 1}['items'], {'pop': 1}.pop "
     "is defined",
     "[True, True, 1, False]"},
    {"d.keys(), d.values(), d.items(), d.get('b'), d.get('z'), d.get('z', 5)",
     R"([dict_keys(['b', 'A', 'c']), dict_values([1, 2, [1, {'k': "v'"}]]), dict_items([('b', 1), ('A', 2), ('c', [1, {'k': "v'"}])]), 1, None, 5])"},
    {R"(s.upper(), s.title(), s.capitalize(), 'ßa'.upper(), 'ßa'.title(), 'ΑΣ'.lower(), "it's x1y".title(), 'aB'.swapcase())",
     R"(['HÉLLO WÖRLD', 'Héllo Wörld', 'Héllo wörld', 'SSA', 'Ssa', 'ας', "It'S X1Y", 'Ab'])"},
    {R"(' \u00a0a\x1c'.strip(), 'xxaxx'.strip('x'), 'abcba'.lstrip('ab'), 'éaé'.rstrip('é'))",
     "['a', 'a', 'cba', 'éa']"},
    {"'a,b,,c'.split(','), 'a,b,c'.split(',', 1), 'a,b,c'.rsplit(',', 1), ' a  b c '.split(), ' a  "
     "b c '.split(none, 1), ' a  b c '.rsplit(none, 1), ''.split(), ''.split(',')",
     "[['a', 'b', '', 'c'], ['a', 'b,c'], ['a,b', 'c'], ['a', 'b', 'c'], ['a', 'b c '], [' a  b', "
     "'c'], [], ['']]"},
    {R"('a\r\nb\x0bc\u2028d\n'.splitlines(), 'a\nb\n'.splitlines(true), ''.splitlines())",
     R"([['a', 'b', 'c', 'd'], ['a\n', 'b\n'], []])"},
    {"s.startswith('hé'), s.startswith(('x', 'h')), s.endswith('d', 0, 11), s.startswith('l', 2), "
     "s.find('l'), s.find('l', 4), s.rfind('l'), s.find('z'), s.index('w'), s.count('l'), "
     "s.count('')",
     "[True, True, True, True, 2, 9, 9, -1, 6, 3, 12]"},
    {"'hello'.replace('l', 'L'), 'hello'.replace('l', 'L', 1), 'abc'.replace('', '-'), "
     "'aaa'.replace('aa', 'b')",
     "['heLLo', 'heLlo', '-a-b-c-', 'ba']"},
    {"','.join(['a', 'b']), ','.join('abc'), 'a-b-c'.partition('-'), 'a-b-c'.rpartition('-'), "
     "'abc'.rpartition('-')",
     "['a,b', 'a,b,c', ('a', '-', 'b-c'), ('a-b', '-', 'c'), ('', '', 'abc')]"},
    {R"('7'.zfill(3), '-7'.zfill(4), 'a'.center(4), 'ab'.center(5, '*'), 'a'.ljust(3, 'é'), 'a'.rjust(3), 'a\tb'.expandtabs(4), 'pre-x'.removeprefix('pre-'), 'x.py'.removesuffix('.py'))",
     "['007', '-007', ' a  ', '**ab*', 'aéé', '  a', 'a   b', 'x', 'x']"},
    {R"('12'.isdigit(), '1²'.isdigit(), '1²'.isdecimal(), '½'.isnumeric(), 'é1'.isalnum(), 'é'.isalpha(), ''.isalpha(), ' \t'.isspace(), 'Ab Cd'.istitle(), 'A1'.isupper(), 'ab'.islower(), 'a_1'.isidentifier(), '\n'.isprintable())",
     "[True, True, False, True, True, True, False, True, True, True, True, True, False]"},
    {"'{} {}'.format(1, 'a'), '{1}{0}'.format(1, 2), '{a.b} {a[b]}'.format(a={'b': [1]}), "
     "'{:>5}<{:<3}<{:^5}'.format('a', 'b', 'c'), '{:05d} {:+d} {:x} {:#x} {:b} {:,}'.format(42, "
     "42, 255, 255, 5, 1234567), '{:.2f} {:e} {:g} {:%} {:.3}'.format(3.14159, 12345.678, 0.0001, "
     "0.5, 2.71828), '{!r} {{}}'.format('a')",
     R"(['1 a', '21', '[1] [1]', '    a<b  <  c  ', '00042 +42 ff 0xff 101 1,234,567', '3.14 1.234568e+04 0.0001 50.000000% 2.72', "'a' {}"])"},
    {"'%s %r' % ('a', 'b'), '%5d|%-5d|%05d|%+d' % (1, 2, 3, 4), '%x %X %o' % (255, 255, 8), '%.2f "
     "%5.1f %e %g' % (3.14159, 2.55, 12345.6, 1e-7), '%(a)s' % {'a': 1}, '%c%%' % 'x', '%.3s' % "
     "'abcdef', '%d' % 3.7, '%s' % [1]",
     R"(["a 'b'", '    1|2    |00003|+4', 'ff FF 10', '3.14   2.5 1.234560e+04 1e-07', '1', 'x%', 'abc', '3', '[1]'])"},
    {"l|sort, l|sort(reverse=true), ['b', 'A', 'a']|sort, ['b', 'A', "
     "'a']|sort(case_sensitive=true), m|sort(attribute='a')|map(attribute='a')|list, d|dictsort, "
     "d|dictsort(true), {'a': 2, 'b': 1}|dictsort(by='value')",
     R"([[1, 2, 3], [3, 2, 1], ['A', 'a', 'b'], ['A', 'a', 'b'], [1, 1, 2], [('A', 2), ('b', 1), ('c', [1, {'k': "v'"}])], [('A', 2), ('b', 1), ('c', [1, {'k': "v'"}])], [('b', 1), ('a', 2)]])"},
    {"m|map(attribute='a')|list, m|map(attribute='b.c', default='-')|list, "
     "['a']|map('upper')|list, ['a']|map('replace', 'a', 'z')|list",
     "[[1, 2, 1], ['x', 'Y', '-'], ['A'], ['z']]"},
    {"m|selectattr('b')|list|length, m|rejectattr('b', 'defined')|list, m|selectattr('a', '==', "
     "2)|list, l|select('odd')|list, l|reject('gt', 1)|list, [0, 1, '']|select|list",
     "[2, [{'a': 1}], [{'a': 2, 'b': {'c': 'Y'}}], [3, 1], [1], [1]]"},
    {"m|groupby('a'), m|groupby('b.c', default='q')|map('first')|list, "
     "m|groupby('a')|map(attribute='grouper')|list",
     "[[(1, [{'a': 1, 'b': {'c': 'x'}}, {'a': 1}]), (2, [{'a': 2, 'b': {'c': 'Y'}}])], ['q', 'x', "
     "'Y'], [1, 2]]"},
    {"['b', 'A', 'a', 'B']|unique|list, [1, 1.0, true]|unique|list, l|min, l|max, []|min is "
     "defined, ['b', 'A']|max, m|max(attribute='a'), l|sum, m|sum(attribute='a'), l|sum(start=10)",
     "[['b', 'A'], [1], 1, 3, False, 'b', {'a': 2, 'b': {'c': 'Y'}}, 6, 4, 16]"},
    {"l|join, l|join(', '), m|join('-', attribute='a'), l|first, l|last, []|first is defined, "
     "s|first, s|last, d|first, l|length, s|length, d|count",
     "['312', '3, 1, 2', '1-2-1', 3, 2, False, 'h', 'd', 'b', 3, 11, 3]"},
    {"l|reverse|list, s|reverse, 'ab'|list, d|list, l|batch(2)|list, l|batch(2, 'x')|list, [1, 2, "
     "3, 4, 5]|slice(3)|list, [1, 2, 3, 4, 5]|slice(3, 'x')|list, d|items|list",
     R"([[2, 1, 3], 'dlröw olléh', ['a', 'b'], ['b', 'A', 'c'], [[3, 1], [2]], [[3, 1], [2, 'x']], [[1, 2], [3, 4], [5]], [[1, 2], [3, 4], [5, 'x']], [('b', 1), ('A', 2), ('c', [1, {'k': "v'"}])]])"},
    {R"(s|title, 'a-b (c) it\'s'|title, 'a\n\nb'|indent, 'a\nb'|indent(2, true), 'a\n\nb'|indent('>', false, true), ' x '|trim, 'xax'|trim('x'), 5|replace(5, 6), 'foo bar baz qux'|truncate(9), 'foo bar baz qux'|truncate(9, true), 'a b, c-d'|wordcount, 'a'|center(3))",
     R"(['Héllo Wörld', "A-B (C) It's", 'a\n\n    b', '  a\n  b', 'a\n>\n>b', 'x', 'a', '6', 'foo...', 'foo ba...', 4, ' a '])"},
    {"n|default('x'), n|default('x', true), x|default('y'), x|d, ''|default('x', boolean=true)",
     "[None, 'x', 'y', '', 'x']"},
    {"'3'|int, '3.7'|int, 'abc'|int, 'abc'|int(5), '0x1f'|int(0, 16), ' 4_2 '|int, n|int, 3.9|int, "
     "-3.9|int, '1e3'|int, 'inf'|int, '3.5'|float, 'a'|float, 'a'|float(1.5), true|float",
     "[3, 3, 0, 5, 31, 42, 0, 3, -3, 1000, 0, 3.5, 0.0, 1.5, 1.0]"},
    {"-3|abs, 42.55|round, 42.55|round(1), 42.55|round(1, 'floor'), 42.51|round(1, 'ceil'), "
     "2.675|round(2), 42.5|round, 45|round(-1), 1234.5|round(-2), 42|round",
     "[3, 43.0, 42.5, 42.5, 42.6, 2.67, 42.0, 40, 1200.0, 42]"},
    {R"('<a href="x">&\''|escape, ('<'|safe) + '<', '<'|e|e, '<'|e|forceescape, ('<'|safe) ~ '<', '<' is escaped, '<'|safe is escaped)",
     "[Markup('&lt;a href=&#34;x&#34;&gt;&amp;&#39;'), Markup('<&lt;'), Markup('&lt;'), "
     "Markup('&amp;lt;'), '<<', False, True]"},
    {R"(d|tojson, d|tojson(indent=2), [[], {}, 1.0, none, true]|tojson(indent=1), {'b': 1, 'a': 'é"\n\x1f\u2028'}|tojson(sort_keys=true), 'é🚀'|tojson(ensure_ascii=true), d|tojson(separators=(',', ':')), 1e16|tojson, (1,)|tojson)",
     R"(['{"b": 1, "A": 2, "c": [1, {"k": "v\'"}]}', '{\n  "b": 1,\n  "A": 2,\n  "c": [\n    1,\n    {\n      "k": "v\'"\n    }\n  ]\n}', '[\n [],\n {},\n 1.0,\n null,\n true\n]', '{"a": "é\\"\\n\\u001f\u2028", "b": 1}', '"\\u00e9\\ud83d\\ude80"', '{"b":1,"A":2,"c":[1,{"k":"v\'"}]}', '1e+16', '[1]'])"},
    {"3 is odd, 4 is divisibleby 2, x is undefined, n is none, n is not none, true is boolean, "
     "true is integer, 1 is number, 'a' is string, d is mapping, l is sequence, d is iterable, 5 "
     "is iterable, 'A' is upper, 1 is eq 1, 2 is gt 1, 1 is in l, 1 is not in [2], 'upper' is "
     "filter, 'nope' is test, range is callable, n is sameas none",
     "[True, True, True, True, False, True, False, True, True, True, True, True, False, True, "
     "True, True, True, True, True, False, True, True]"},
    {"x is defined, x ~ 'a', x|length, x|list, x|upper, x|join, x == y, x == 1, x is iterable, "
     "x|first is defined, x in [1], [x], x if x else 'e'",
     "[False, 'a', 0, [], '', '', True, False, True, False, False, [Undefined], 'e']"},
    {"range(3)|list, range(5, 0, -2)|list, range(3)[1], dict(a=1), dict({'a': 1}, b=2), "
     "namespace(a=1).a, namespace(a=1), strftime_now('%d %B %Y, %H:%M %f%z')",
     "[[0, 1, 2], [5, 3, 1], 1, {'a': 1}, {'a': 1, 'b': 2}, 1, <Namespace {'a': 1}>, '27 November "
     "2026, 12:00 000000']"},
    {"l|select('odd')|first, (l|map('string'))[0] is defined, (l|select('even')) and 'true', "
     "l|map('string') is iterable",
     "[3, False, 'true', True]"},
    {"d|string|upper|length, -1|abs, (-1)|abs, not l|length, 'a' ~ 'b'|upper, '{a}'.format(**{'a': "
     "1}), '{}{}'.format(*[1, 2])",
     "[39, 1, 1, False, 'aB', '1', '12']"},
};

TEST(Jinja, EvaluatesExpressionsAsPythonDoes) {
  for (const auto& [source, expected] : kExpressions) {
    SCOPED_TRACE(source);
    EXPECT_EQ(rendered("{{ [" + std::string(source) + "] }}", sample()).text, expected);
  }
}

// Expected is what jinja2 writes with trim_blocks, lstrip_blocks and loopcontrols.
const Case kStatements[] = {
    {"{% for x in l %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% "
     "endfor %}",
     "1/3:3,2/3:1,3/3:2"},
    {"{% for x in l %}{{ [loop.index0, loop.revindex, loop.revindex0, loop.first, loop.last, "
     "loop.depth] }}{% endfor %}",
     "[0, 3, 2, True, False, 1][1, 2, 1, False, False, 1][2, 1, 0, False, True, 1]"},
    {"{% for x in l %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }};{{ loop.cycle('a', 'b') }} "
     "{% endfor %}",
     "<3<1;a 3<1<2;b 1<2<;a "},
    {"{% for x in [1, 1, 2, 2, 1] %}{{ x if loop.changed(x) }}{% endfor %}", "121"},
    {"{% for x in [] %}a{% else %}none{% endfor %}{% for x in nope %}a{% else %}none{% endfor %}",
     "nonenone"},
    {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% "
     "for c in 'hé' %}{{ c }}.{% endfor %}",
     R"(b=1;A=2;c=[1, {'k': "v'"}];bAch.é.)"},
    {"{% for a, (b, c) in [[1, [2, 3]]] %}{{ a + b + c }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% "
     "endfor %}",
     "612"},
    {"{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}e{% endfor %}",
     "1/2:3 2/2:2 "},
    {"{% set ns = namespace(n=0) %}{% for x in [1, 3, 2, 4] if x > ns.n %}{% set ns.n = x %}{{ x "
     "}}{% endfor %}",
     "134"},
    {"{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %};{% for x in l "
     "%}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
     "32;3"},
    {"{% for x in tree recursive %}{{ loop.depth }}{{ x.z }}{% if x.y %}[{{ loop(x.y) }}]{% endif "
     "%}{% endfor %}",
     "11[22[33]]14"},
    {"{% for x in [1, 2] %}{% set outer = loop %}{% for y in [3, 4] %}{{ outer.index }}{{ "
     "loop.index }} {% endfor %}{% endfor %}",
     "11 12 21 22 "},
    {"{% set x = 1 %}{% for y in l %}{% set x = x + y %}{{ x }} {% endfor %}{{ x }}{% for y in l "
     "%}{% set z = y %}{% endfor %}{{ z is defined }}",
     "4 2 3 1False"},
    {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% with x = 5, y = x %}{{ x "
     "}}{{ y }}{% endwith %}{{ x }}",
     "2522"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (a, b) = 'xy' %}{{ a }}{{ b }}{% set t = 1, %}{{ t "
     "}}",
     "12xy(1,)"},
    {"{% set x %}a{{ 1 }}{% endset %}{{ x|length }}{% set x | upper | replace('A', 'b') %}a{% "
     "endset %}{{ x }}",
     "2b"},
    {"{% set ns = namespace(a=1) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a "
     "}}{% set ns.b, c = 2, 3 %}{{ ns.b + c }}",
     "75"},
    {"{% if n %}a{% elif l %}b{% else %}c{% endif %}{% if n: %}a{% else %}c{% endif %}", "bc"},
    {"{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=1, a=2) }} "
     "{{ f() }}",
     "12 13 21 2"},
    {"{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, c=4) }}",
     "1(2, 3){'c': 4}"},
    {"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}{{ "
     "f(1)|length }}",
     "32102"},
    {"{% macro f() %}{{ q }}{% set q = 2 %}{{ q }}{% endmacro %}{% set q = 1 %}{{ f() }}{{ q }}",
     "121"},
    {"{% macro f() %}[{{ caller(1) }}]{% endmacro %}{% set v = 3 %}{% call(a, b=5) f() %}{{ a }}{{ "
     "b }}{{ v }}{% endcall %}",
     "[153]"},
    {"{% macro g() %}<{{ caller() }}>{% endmacro %}{% macro f() %}{{ caller is defined }}{% "
     "endmacro %}{% call g() %}{{ f() }}{% endcall %}",
     "<False>"},
    {"{% filter upper %}a{{ 1 }}b{% endfilter %}{% filter replace('a', 'b') | upper %}aaa{% "
     "endfilter %}",
     "A1BBBB"},
    {"{% print 1, 'a' %}{% set g = l|select('odd') %}{{ g|list }}{{ g|list }}", "1a[3, 1][]"},
    {"{% if false %}{{ 1|nope }}{% endif %}{{ (1|nope) if 'nope' is filter else 'none' }}", "none"},
    {"  {% if 1 %}\n  a\n  {% endif %}\n  b {%- if 1 %}  c  {% endif -%}  d\n{%+ if 1 %}e{% endif "
     "+%}\nf\n",
     "  a\n  b  c  d\ne\nf"},
    {"x {# c #}\n  {# c #}\ny {#- c -#} z{{- 1 -}} w\n\n", "x yz1w\n"},
    {"{% raw %}{{ x }}\n{% if %}{# #}{% endraw %}\n  {%- raw -%}  a {{ b }}  {%- endraw -%}  c",
     "{{ x }}\n{% if %}{# #}a {{ b }}c"},
    {"{{ '}}' }}{{ {'a': {'b': 1}} }}{% if '%}' %}{ { }{% endif %}\r\n{{ (1,\r\n2) }}",
     "}}{'a': {'b': 1}}{ { }(1, 2)"},
    {"é{% generation %}ab{{ s }}{% endgeneration %}x{% for x in l %}{% generation %}{% set q = x "
     "%}{{ q }}{{ loop.index }}{% endgeneration %}{{ q }}{% endfor %}",
     "éabhéllo wörldx311223"},
};

TEST(Jinja, ExecutesStatementsAsJinja2Does) {
  for (const auto& [source, expected] : kStatements) {
    SCOPED_TRACE(source);
    EXPECT_EQ(rendered(source, sample()).text, expected);
  }
}

TEST(Jinja, SaysWhatTheAssistantWrites) {
  const JinjaText made = rendered(
      "é{% generation %}ab{{ s }}{% endgeneration %}x{% generation %}{% endgeneration %}"
      "{% set kept %}12{% generation %}34{% endgeneration %}{% endset %}567890",
      sample());
  EXPECT_EQ(made.text, "éabhéllo wörldx567890");
  // The last is where transformers has it, which knows nothing of the text that is kept.
  EXPECT_EQ(made.generated, (std::vector<JinjaSpan>{{2, 17}, {18, 18}, {18, 20}}));
  EXPECT_TRUE(
      JinjaTemplate("{% if 0 %}{%- generation -%}{% endgeneration %}{% endif %}").has_generation());
  EXPECT_FALSE(JinjaTemplate("{# {% generation %} #}").has_generation());
}

TEST(Jinja, RaisesWhatTheTemplateSays) {
  auto raise = [] { rendered("a\n{{ raise_exception('no\\nrole ' ~ 1) }}", sample()); };
  EXPECT_EQ(message_of<RaisedByTemplate>(raise), "no\nrole 1");
}

// ---- Errors

std::string refusal(const std::string& source) {
  return message_of<DataError>([&] { rendered(source, sample()); });
}

TEST(Jinja, SaysWhatItFoundAndExpectedWithTheLine) {
  const Case kErrors[] = {
      {"a\n{{ x.y }}", "line 2: x is undefined"},
      {"{{ d.nope.x }}", "line 1: dict has no attribute nope"},
      {"{{ d['nope']() }}", "line 1: dict has no element nope"},
      {"{{ l[5].x }}", "line 1: list has no element 5"},
      {"{{ x + 1 }}", "line 1: x is undefined"},
      {"{{ 'a' + 1 }}", "line 1: found str + int, expected values that have this operator"},
      {"{{ -'a' }}", "line 1: found str behind a sign, expected a number"},
      {"{{ 'a' < 1 }}",
       "line 1: found a comparison by order of str and int, expected values that have one"},
      {"{{ 1 in 'a' }}",
       "line 1: found int on the left of `in` with a str on its right, expected a str"},
      {"{{ 1 // 0 }}", "line 1: found a division by zero, expected none"},
      {"{{ 2 ** 64 }}", "line 1: found an integer beyond 64 bits, expected none"},
      {"{{ 9223372036854775808 }}",
       "line 1: found the integer 9223372036854775808, expected one of 64 bits"},
      {"{{ (-8) ** 0.5 }}", "line 1: found a power that is no float, expected one that is"},
      {"a\nb\n{{ 'a'|lenght }}",
       "line 3: found no filter named lenght, expected one that is there; nearest: length"},
      {"{{ 1 is deffined }}",
       "line 1: found no test named deffined, expected one that is there; nearest: defined"},
      {"{{ l|random }}", "line 1: found no filter named random, expected one that is there"},
      {"{{ s|map('nope')|list }}",
       "line 1: found no filter named nope, expected one that is there"},
      {"{% if 1 %}\n{{ 1|nope }}{% endif %}",
       "line 2: found no filter named nope, expected one that is there"},
      {"{{ s.encode() }}",
       "line 1: found the attribute encode of str, which is not supported; expected another"},
      {"{{ l.append(1) }}",
       "line 1: the method append of list changes its value, which templates may not"},
      {"{{ d.pop('b') }}",
       "line 1: the method pop of dict changes its value, which templates may not"},
      {"{{ s.__class__.x }}", "line 1: the attribute __class__ is not for templates"},
      {"{{ l|map('upper') }}",
       "line 1: found generator to be written as text, expected a list, which the filter list "
       "makes of it"},
      {"{{ s.upper }}",
       "line 1: found function to be written as text, expected a value whose text says what it "
       "holds"},
      {"{{ l|select('odd')|last }}",
       "line 1: last: found an iterator, expected what has an end, as the filter list makes"},
      {"{{ 5|length }}", "line 1: found int, expected a value with a length"},
      {"{{ l|join('a', 'b', 'c') }}", "line 1: join: found 3 arguments, expected at most 2"},
      {"{{ d|tojson(ident=2) }}",
       "line 1: tojson: found an argument named ident, expected none of that name; nearest: "
       "indent"},
      {"{{ d|items(1) }}", "line 1: items: found 1 argument, expected at most 0"},
      {"{{ s.split() | tojson(separators=1) }}",
       "line 1: found int, expected a value that can be iterated over"},
      {"{{ range(3)|tojson }}", "line 1: found range, expected a value that JSON has"},
      {"{{ {[1]: 2} }}", "line 1: found list as a key, expected a value that can be hashed"},
      {"{{ f(1) }}", "line 1: f is undefined"},
      {"{{ 5() }}", "line 1: found a call of int, expected a function"},
      {"{{ l[::0] }}", "line 1: found the step 0 in a slice, expected another"},
      {"{{ 'a'.index('b') }}", "line 1: index: found no \"b\" in the text, expected one"},
      {"{{ '%d' % 'a' }}", "line 1: found str as a number, expected an integer"},
      {"{{ '%s %s' % 1 }}", "line 1: found more fields than values in a format, expected as many"},
      {"{{ '{} {}'.format(1) }}",
       "line 1: found more fields than values in a format, expected as many"},
      {"{{ ('<'|safe).replace('<', '>') }}",
       "line 1: found the method replace of a safe text, which is not supported; expected one of a "
       "plain text"},
      {"{% include 'a' %}",
       "line 1: found the statement include, which is not supported; expected none"},
      {"\n{% extends 'a' %}",
       "line 2: found the statement extends, which is not supported; expected none"},
      {"{% import 'a' as b %}",
       "line 1: found the statement import, which is not supported; expected none"},
      {"{% block a %}{% endblock %}",
       "line 1: found the statement block, which is not supported; expected none"},
      {"{% trans %}{% endtrans %}",
       "line 1: found the statement trans, which is not supported; expected none"},
      {"{% autoescape true %}{% endautoescape %}",
       "line 1: found the statement autoescape, which is not supported; expected none"},
      {"{% fr x in l %}{% endfor %}",
       "line 1: found the statement fr, expected one that is there; nearest: for"},
      {"{% if 1 %}\n\na",
       "line 3: found the end of the template, expected elif or else or endif for if of line 1"},
      {"{% for x in l %}{% endif %}",
       "line 1: found the statement endif, expected endfor or else for the loop of line 1; "
       "nearest: elif"},
      {"{% endfor %}", "line 1: found the statement endfor, expected one that is there"},
      {"{% break %}", "line 1: found break outside of a loop, expected it within one"},
      {"{{ 1 ", "line 1: found the end of the template, expected }}"},
      {"{{ (1 }}", "line 1: found }, expected )"},
      {"{{ 1) }}", "line 1: found ), expected no closing bracket"},
      {"{{ 'a }}", "line 1: found a string without its end, expected '"},
      {"{{ 1 ! 2 }}", "line 1: found \"!\", expected an expression's token"},
      {"{# a", "line 1: found no #}, expected one for {#"},
      {"{% raw %}a", "line 1: found no {% endraw %}, expected one for {% raw %}"},
      {"{{ '\\ud800' }}",
       "line 1: found the escape of \"d800\" in a string, expected the code of a character"},
      {"{{ '\\N{BULLET}' }}",
       "line 1: found the escape \\N, which is not supported; expected another"},
      {"{{ }}", "line 1: found }}, expected an expression"},
      {"{{ 1 2 }}", "line 1: found 2, expected }}"},
      {"{% set d.b = 1 %}",
       "line 1: found an assignment to the attribute b of dict, expected one of a namespace"},
      {"{% set nope.b = 1 %}",
       "line 1: found an assignment to the attribute b of the undefined nope, expected one of a "
       "namespace"},
      {"{% set ns = namespace() %}{% set ns._a = 1 %}",
       "line 1: found the attribute _a of a namespace, expected a name that does not begin with _"},
      {"{% for a, b in l %}{% endfor %}",
       "line 1: found int, expected a value that can be iterated over"},
      {"{% for x in 5 %}{% endfor %}",
       "line 1: found int, expected a value that can be iterated over"},
      {"{% for loop in l %}{% endfor %}",
       "line 1: found loop, expected a name that is not the loop's own"},
      {"{% for x in l %}{{ loop(l) }}{% endfor %}",
       "line 1: found a call of a loop that is not recursive, expected `recursive` there"},
      {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
       "line 1: found 2 arguments of the macro f, expected at most 1"},
      {"{% macro f(a) %}{% endmacro %}{{ f(b=1) }}",
       "line 1: found the argument b of the macro f, expected one that it takes"},
      {"{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "line 1: there is no caller"},
      {"{% call l %}{% endcall %}",
       "line 1: found another expression behind call, expected the call of a macro"},
      {"{{ cycler('a') }}", "line 1: found cycler, which is not supported; expected another name"},
      {"{{ raise_exception() }}",
       "line 1: raise_exception: found no argument message, expected one"},
      {"{{ strftime_now(1) }}", "line 1: strftime_now: found int as an argument, expected a str"},
      {"{{ (1,\n2,\n'a' + 1) }}",
       "line 3: found str + int, expected values that have this operator"},
      {"{% macro f() %}{{ 1\n // 0 }}{% endmacro %}\n\n{{ f() }}",
       "line 1: found a division by zero, expected none"},
  };
  for (const auto& [source, expected] : kErrors) {
    SCOPED_TRACE(source);
    EXPECT_EQ(refusal(source), expected);
  }
}

TEST(Jinja, RefusesWhatJinja2Refuses) {
  const char* kSources[] = {
      "{{ 'a' * 1.5 }}",
      "{{ [1] + (2,) }}",
      "{{ none < 1 }}",
      "{{ [1] in d }}",
      "{{ 'a'.split('') }}",
      "{{ ','.join([1]) }}",
      "{{ 'a'|abs }}",
      "{{ x|int }}",
      "{{ x|dictsort }}",
      "{{ [1, 'a']|sort }}",
      "{{ [[1]]|unique|list }}",
      "{{ m|map(attribute='b.c')|list }}",
      "{{ l|items }}",
      "{{ 5|list }}",
      "{{ d|dictsort(by='x') }}",
      "{{ 1 is odd is even }}",
      "{{ f(a=1, 2) }}",
      "{{ l[1:2:3:4] }}",
      "{% set 5 = 1 %}",
      "{% set true = 1 %}",
      "{% set a.b.c = 1 %}",
      "{% set a, b = 1 %}",
      "{% with a %}{% endwith %}",
      "{% macro f(a=1, b) %}{% endmacro %}",
      "{% filter nope %}{% endfilter %}",
      "{% generation x %}{% endgeneration %}",
      "{% else %}",
      "{% %}",
      "{%",
      "{{",
      "{{ a b }}",
      "{{ {'a' 1} }}",
      "{{ [1 2] }}",
      "{{ 1 + }}",
      "{{ * 2 }}",
      "{{ 007 }}",
      "{{ 1. }}",
      "{% for x in l %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}",
      "{{ dict(1) }}",
      "{{ dict([1]) }}",
      "{{ namespace(_a=1) }}",
      "{{ range() }}",
      "{{ range(1, 2, 0) }}",
      "{{ range(100001) }}",
      "{{ '{' .format() }}",
      "{{ '{} {1}'.format(1, 2) }}",
      "{{ '%q' % 1 }}",
      "{{ 'no' % 1 }}",
      "{{ {(1, 2): 3}|tojson }}",
  };
  for (const char* source : kSources) {
    SCOPED_TRACE(source);
    EXPECT_TRUE(refusal(source).starts_with("line 1: "));
  }
}

// ---- Limits

#ifdef __SANITIZE_ADDRESS__  // under which all takes several times as long
constexpr double kMostSeconds = 20;
#else
constexpr double kMostSeconds = 1;
#endif

// The processor's time, of which others on the machine take none.
class Stopwatch {
 public:
  double seconds() const { return static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t begin_ = std::clock();
};

std::string repeated(const std::string& text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(Jinja, HostileTemplatesEndSoon) {
  const std::string kDoubling =
      "{% set x = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
      "{% set x.a = [x.a, x.a] %}{% set x.b = [x.b, x.b] %}{% endfor %}";
  const std::string kLong = "{% set a = 'a' * 1000000 %}";
  const std::string kMany = "{% for i in range(99999) %}{% for j in range(99999) %}";
  const std::string kEnd = "{% endfor %}{% endfor %}";
  const std::string kSources[] = {
      "{{ 'a' * 10**9 }}",
      "{{ [1] * 10**9 }}",
      "{{ '' * 10**18 }}{{ 'a' * 10**18 }}",
      "{{ range(10**12) }}",
      "{{ 10**18 * 10 }}",
      "{{ 3 ** (10**15) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%.1000000000f' % 1 }}",
      "{{ '{:>1000000000}'.format(1) }}",
      "{{ 'a'.center(10**12) }}",
      "{{ 'a'.zfill(10**12) }}",
      "{{ '\t'.expandtabs(10**12) }}",
      "{{ ('\n' * 1000000)|indent(10000) }}",
      "{{ [[1]]|tojson(indent=10**12) }}",
      "{{ [1]|batch(10**12, 'x')|list }}",
      "{{ 'a'|center(10**12) }}",
      "{{ strftime_now('%9999d') }}",
      kMany + kEnd,
      kMany + "{% set x = [i, j] %}" + kEnd,
      kMany + "{{ 'abc' }}" + kEnd,
      kMany + "{% set x = {'a': i}.a ~ j|string|upper %}" + kEnd,
      kMany + "{% macro f() %}{% endmacro %}{{ f() }}" + kEnd,
      kLong + kMany + "{{ 'x' in a }}" + kEnd,
      kLong + "{% set b = 'a' * 9000 ~ 'b' %}" + kMany + "{{ b in a }}{{ a.rfind(b) }}" + kEnd,
      kLong + "{% set b = 'a' * 20 ~ 'b' %}" + kMany + "{{ b in a }}{{ a.split(b)|length }}" + kEnd,
      kLong + kMany + "{{ a.strip('a') ~ a.upper()|length }}" + kEnd,
      kLong + kMany + "{{ a.replace('a', a) }}" + kEnd,
      kLong + kMany + "{{ (a ~ 'é')[i] }}" + kEnd,
      kLong + kMany + "{{ a|list|length }}" + kEnd,
      kLong + kMany + "{{ a|title|length }}{{ a|wordcount }}" + kEnd,
      kLong + kMany + "{{ a|tojson|length }}{{ a|escape|length }}" + kEnd,
      kLong + kMany + "{{ (' ' * 1000000).strip() }}" + kEnd,
      kLong + kMany + "{{ a.title().isalpha() }}" + kEnd,
      kLong + kMany + "{{ a.rsplit('a', 1)|length }}" + kEnd,
      kMany + "{{ range(1000)|sort|length }}" + kEnd,
      kMany + "{{ range(99999)|map('string')|join|length }}" + kEnd,
      "{% set ns = namespace(s='a') %}{% for i in range(99999) %}{% set ns.s = ns.s ~ 'abcdefgh' "
      "%}{% endfor %}" +
          kMany + "{% set ns.s = ns.s + ns.s %}" + kEnd,
      "{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}",
      kDoubling + "{{ x.a }}",
      kDoubling + "{{ x.a == x.b }}",
      kDoubling + "{{ x.a|tojson }}",
      kDoubling + "{{ x.a < x.b }}",
      "{% set x = namespace(a=(1,)) %}{% for i in range(60) %}{% set x.a = (x.a, x.a) %}"
      "{% endfor %}{{ {}[x.a] }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(x=f()) %}{% endmacro %}{{ f() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ 'a'|map(" + repeated("'map', ", 100000) + "'list')|list }}",
      "{% macro f() %}" + repeated("[", 50) + "f()" + repeated("]", 50) +
          "{% endmacro %}{{ f() }}" + repeated("{{ f() }}", 10) + "{{ 1 // 0 }}",
  };
  for (const std::string& source : kSources) {
    SCOPED_TRACE(source.substr(0, 200));
    const Stopwatch watch;
    EXPECT_TRUE(refusal(source).starts_with("line "));
    EXPECT_LT(watch.seconds(), kMostSeconds);
  }
}

TEST(Jinja, LargeSourcesEndSoon) {
  const std::string kParts[] = {"((",
                                "[",
                                "{{ [",
                                "{{ not ",
                                "{{ -",
                                "{{ a.",
                                "{% if 1 %}",
                                "{{ a|f",
                                "{% raw %}",
                                "{#",
                                "{",
                                "{%",
                                "'",
                                "{{ a ~ ",
                                "{{ a + ",
                                "{{ f(a, ",
                                "{% for a in b %}",
                                "{% set a %}",
                                "{{ 1 if ",
                                "{% raw %}{% ",
                                "{{ '\\",
                                "{{ a[1:",
                                "{{ 9",
                                "{{ a is b",
                                "\n{%- ",
                                "{% macro f(a) %}",
                                "{{ a }}",
                                "{% set a = 1 %}",
                                "  {# #}"};
  for (const std::string& part : kParts) {
    SCOPED_TRACE(part);
    const std::string source = repeated(part, (size_t{1} << 20) / part.size());
    // A chain of operators has what begins it once.
    const size_t head = std::min<size_t>(3, part.size() - 1);
    const std::string chain = part.substr(0, head) + repeated(part.substr(head), 100000);
    for (const std::string& text : {source, chain}) {
      const Stopwatch watch;
      try {
        rendered(text.substr(0, size_t{1} << 20), sample());
      } catch (const DataError&) {
      }
      EXPECT_LT(watch.seconds(), kMostSeconds);
    }
  }
  EXPECT_EQ(refusal(repeated("a", (size_t{1} << 20) + 1)),
            "found a template of 1048577 bytes, expected at most 1048576");
}

TEST(Jinja, VariablesMayBeAnything) {
  ordered_json deep = 1;
  for (int i = 0; i < 200; ++i) deep = ordered_json::array({deep});
  EXPECT_EQ(message_of<DataError>([&] {
              rendered("a", {{"deep", deep}});
            }),
            "line 1: found values nested deeper than 100, expected less");
  EXPECT_EQ(
      rendered("{{ x }}", ordered_json_tree(R"({"x": [-9223372036854775808, 1e400, 5]})")).text,
      "[-9223372036854775808, inf, 5]");
  auto large = [] { rendered("a", ordered_json_tree(R"({"x": 9223372036854775808})")); };
  EXPECT_EQ(message_of<DataError>(large),
            "line 1: found the integer 9223372036854775808 in a variable, expected one of 64 bits");
}

}  // namespace
}  // namespace longshore::data
