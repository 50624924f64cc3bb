#include "longshore/data/jinja/parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/jinja/filters.h"
#include "longshore/data/jinja/lexer.h"

namespace longshore::data::jinja {
namespace {

// Of blocks and brackets within each other, and of operators whose left side is the one before.
constexpr size_t kMostDepth = 100;
constexpr size_t kMostInChain = 200;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokens(source)) {}

  Syntax parse() {
    Syntax syntax;
    syntax.statements = parse_block({}, "the template");
    syntax.has_generation = has_generation_;
    return syntax;
  }

 private:
  // ---- Tokens

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  size_t line() const { return current().line; }
  const Token& take() { return tokens_[current().kind == TokenKind::end ? at_ : at_++]; }
  [[noreturn]] void fail(const std::string& message) const { fail_at(line(), message); }
  [[noreturn]] void fail_expecting(const std::string& expected) const {
    fail("found " + shown(current()) + ", expected " + expected);
  }

  bool take_op(std::string_view symbol) {
    if (!current().is_op(symbol)) return false;
    ++at_;
    return true;
  }
  bool take_name(std::string_view word) {
    if (!current().is_name(word)) return false;
    ++at_;
    return true;
  }
  void expect_op(std::string_view symbol) {
    if (!take_op(symbol)) fail_expecting(std::string(symbol));
  }
  void expect_name(std::string_view word) {
    if (!take_name(word)) fail_expecting(std::string(word));
  }
  void expect(TokenKind kind, const char* expected) {
    if (current().kind != kind) fail_expecting(expected);
    ++at_;
  }
  std::string name(const char* expected) {
    if (current().kind != TokenKind::name) fail_expecting(expected);
    return take().text;
  }

  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser.depth_ > kMostDepth)
        parser.fail("found more than " + std::to_string(kMostDepth) +
                    " blocks and brackets within each other, expected no more");
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  // Counts the operators of one chain, each of which is a level of the expression.
  void count_link(size_t& links) const {
    if (++links > kMostInChain)
      fail("found more than " + std::to_string(kMostInChain) +
           " operators in a row, expected no more");
  }

  template <class Form>
  static ExpressionPtr made(size_t line, Form form) {
    return std::make_unique<const Expression>(Expression{std::move(form), line});
  }

  // A value for the time that it lives.
  template <class T>
  class Within {
   public:
    Within(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
    ~Within() { variable_ = before_; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    T& variable_;
    T before_;
  };

  // ---- Statements

  // Up to a block that begins with one of these words, which is the current token then.
  Block parse_block(const std::vector<std::string>& ends, const std::string& of) {
    const Level level(*this);
    Block block;
    while (true) {
      const size_t line = current().line;
      switch (current().kind) {
        case TokenKind::text:
          block.push_back({Output{take().text, nullptr}, line});
          break;
        case TokenKind::print_begin:
          take();
          block.push_back({Output{"", parse_tuple({})}, line});
          expect(TokenKind::print_end, "}}");
          break;
        case TokenKind::block_begin:
          take();
          if (current().kind == TokenKind::name &&
              std::ranges::find(ends, current().text) != ends.end())
            return block;
          parse_statement(block, ends, of);
          expect(TokenKind::block_end, "%}");
          break;
        default:
          if (ends.empty()) return block;
          fail_expecting(join(ends, " or ") + " for " + of);
      }
      if (missing_) fail_at(missing_->first, missing_->second);
    }
  }

  // The rest of a block's head, and the block up to the word that ends it.
  Block parse_body(const std::vector<std::string>& ends, const std::string& of) {
    const std::string place = of + " of line " + std::to_string(line());
    take_op(":");
    expect(TokenKind::block_end, "%}");
    return parse_block(ends, place);
  }
  Block parse_whole_body(const std::string& end, const std::string& of) {
    Block body = parse_body({end}, of);
    take();
    return body;
  }

  void parse_statement(Block& block, const std::vector<std::string>& ends, const std::string& of) {
    const size_t line = current().line;
    const std::string tag = name("the name of a statement");
    if (tag == "for") {
      block.push_back({parse_for(), line});
    } else if (tag == "if") {
      block.push_back({parse_if(), line});
    } else if (tag == "set") {
      parse_set(block, line);
    } else if (tag == "print") {
      parse_print(block);
    } else if (tag == "macro") {
      Macro macro{name("the name of a macro"), {}, {}};
      parse_macro(macro, true, "endmacro", "the macro");
      block.push_back({std::move(macro), line});
    } else if (tag == "call") {
      block.push_back({parse_call_block(), line});
    } else if (tag == "filter") {
      const Within hard(is_soft_, false);
      ExpressionPtr filter = parse_filters(nullptr, true);
      block.push_back(
          {FilterBlock{std::move(filter), parse_whole_body("endfilter", "the filter")}, line});
    } else if (tag == "with") {
      block.push_back({parse_with(), line});
    } else if (tag == "generation") {
      has_generation_ = true;
      const Within hard(is_soft_, false);
      const Within outside(loops_, size_t{0});
      block.push_back({Generation{parse_whole_body("endgeneration", "generation")}, line});
    } else if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail_at(line, "found " + tag + " outside of a loop, expected it within one");
      block.push_back({Break{}, line});
      if (tag == "continue") block.back().form = Continue{};
    } else {
      fail_statement(tag, line, ends, of);
    }
  }

  [[noreturn]] static void fail_statement(const std::string& tag, size_t line,
                                          const std::vector<std::string>& ends,
                                          const std::string& of) {
    static const std::vector<std::string> kOthers = {
        "autoescape", "block", "extends", "from", "import", "include", "trans", "do", "debug"};
    static const std::vector<std::string> kKnown = {
        "for",  "if",     "elif", "else",  "set",      "print", "macro",
        "call", "filter", "with", "break", "continue", "raw",   "generation"};
    if (std::ranges::find(kOthers, tag) != kOthers.end())
      fail_at(line, "found the statement " + tag + ", which is not supported; expected none");
    fail_at(line, "found the statement " + excerpt(tag) + ", expected " +
                      (ends.empty() ? "one that is there" : join(ends, " or ") + " for " + of) +
                      nearest_help(nearest(tag, kKnown)));
  }

  For parse_for() {
    For loop;
    const Within hard(is_soft_, false);
    const Within within(fors_, fors_ + 1);
    loop.target = parse_target(false);
    expect_name("in");
    loop.elements = parse_tuple({"recursive"}, false);
    if (take_name("if")) loop.condition = parse_expression();
    loop.is_recursive = take_name("recursive");
    {
      const Within inside(loops_, loops_ + 1);
      loop.body = parse_body({"endfor", "else"}, "the loop");
    }
    if (take().text == "else") {
      // That of a recursive loop is in a function of its own.
      const Within outside(loops_, loop.is_recursive ? 0 : loops_);
      loop.otherwise = parse_whole_body("endfor", "the loop");
    }
    return loop;
  }

  If parse_if() {
    const Within soft(is_soft_, true);
    If statement;
    while (true) {
      ExpressionPtr condition = parse_tuple({}, false);
      statement.branches.emplace_back(std::move(condition),
                                      parse_body({"elif", "else", "endif"}, "if"));
      const std::string end = take().text;
      if (end == "elif") continue;
      if (end == "else") statement.otherwise = parse_whole_body("endif", "if");
      return statement;
    }
  }

  void parse_set(Block& block, size_t line) {
    Target target = parse_target(true);
    if (take_op("=")) {
      block.push_back({Set{std::move(target), parse_tuple({})}, line});
      return;
    }
    const Within hard(is_soft_, false);
    ExpressionPtr filter = current().is_op("|") ? parse_filters(nullptr, false) : nullptr;
    block.push_back(
        {SetBlock{std::move(target), std::move(filter), parse_whole_body("endset", "set")}, line});
  }

  void parse_print(Block& block) {
    bool is_first = true;
    while (current().kind != TokenKind::block_end) {
      if (!std::exchange(is_first, false)) expect_op(",");
      const size_t line = current().line;
      block.push_back({Output{"", parse_expression()}, line});
    }
  }

  // The parameters, where they must or may stand, and the body.
  void parse_signature(Macro& macro) {
    expect_op("(");
    while (!take_op(")")) {
      if (!macro.parameters.empty()) expect_op(",");
      std::string parameter = name("the name of a parameter");
      ExpressionPtr value = take_op("=") ? parse_expression() : nullptr;
      if (!value && !macro.parameters.empty() && macro.parameters.back().second)
        fail("found the parameter " + excerpt(parameter) +
             " without a default behind one that has one, expected a default");
      macro.parameters.emplace_back(std::move(parameter), std::move(value));
    }
  }

  void parse_macro(Macro& macro, bool has_signature, const std::string& end,
                   const std::string& of) {
    const Within hard(is_soft_, false);
    const Within outside(loops_, size_t{0});
    if (has_signature) parse_signature(macro);
    const auto mentioned = std::exchange(mentioned_, {});
    macro.body = parse_whole_body(end, of);
    macro.uses_caller = mentioned_[0];
    macro.uses_kwargs = mentioned_[1];
    macro.uses_varargs = mentioned_[2];
    for (const auto& parameter : macro.parameters) {
      if (parameter.first == "kwargs") macro.uses_kwargs = false;
      if (parameter.first == "varargs") macro.uses_varargs = false;
      if (parameter.first == "caller") macro.uses_caller = false;
    }
    for (size_t i = 0; i < mentioned.size(); ++i) mentioned_[i] |= mentioned[i];
  }

  CallBlock parse_call_block() {
    CallBlock block;
    block.caller.name = "caller";
    if (current().is_op("(")) parse_signature(block.caller);
    const size_t line = current().line;
    block.call = parse_expression();
    if (!std::holds_alternative<Call>(block.call->form))
      fail_at(line, "found another expression behind call, expected the call of a macro");
    parse_macro(block.caller, false, "endcall", "the call");
    return block;
  }

  With parse_with() {
    With with;
    const Within hard(is_soft_, false);
    while (current().kind != TokenKind::block_end) {
      if (!with.variables.empty()) expect_op(",");
      Target target = parse_target(false);
      expect_op("=");
      with.variables.emplace_back(std::move(target), parse_expression());
    }
    with.body = parse_whole_body("endwith", "with");
    return with;
  }

  // "a", "a, b", "(a, b)", and "a.b" where that may be assigned to.
  Target parse_target(bool allows_attributes) {
    Target first = parse_one_target(allows_attributes);
    if (!current().is_op(",")) return first;
    Target all{"", "", {}, true};
    all.parts.push_back(std::move(first));
    while (take_op(",")) {
      if (current().is_name("in") || current().is_op("=") || current().is_op(")")) break;
      all.parts.push_back(parse_one_target(allows_attributes));
    }
    return all;
  }

  Target parse_one_target(bool allows_attributes) {
    const Level level(*this);
    if (take_op("(")) {
      Target target = parse_target(allows_attributes);
      expect_op(")");
      return target;
    }
    static const std::vector<std::string> kConstants = {"true", "false", "none",
                                                        "True", "False", "None"};
    if (std::ranges::find(kConstants, current().text) != kConstants.end())
      fail_expecting("a name to assign to");
    if (fors_ > 0 && current().is_name("loop")) fail_expecting("a name that is not the loop's own");
    Target target{name("a name to assign to"), "", {}, false};
    if (allows_attributes && take_op(".")) target.attribute = name("the name of an attribute");
    return target;
  }

  // ---- Expressions

  // An expression, or a tuple of them without brackets. Behind a comma it may end at what ends a
  // tag or a bracket, or at one of these words.
  ExpressionPtr parse_tuple(const std::vector<std::string>& ends, bool allows_condition = true) {
    const size_t line = current().line;
    auto at_end = [&] {
      return current().kind == TokenKind::print_end || current().kind == TokenKind::block_end ||
             current().is_op(")") ||
             (current().kind == TokenKind::name &&
              std::ranges::find(ends, current().text) != ends.end());
    };
    if (at_end()) fail_expecting("an expression");
    ListLiteral tuple{{}, true};
    tuple.elements.push_back(allows_condition ? parse_expression() : parse_or());
    if (!current().is_op(",")) return std::move(tuple.elements[0]);
    while (take_op(",") && !at_end())
      tuple.elements.push_back(allows_condition ? parse_expression() : parse_or());
    return made(line, std::move(tuple));
  }

  ExpressionPtr parse_expression() {
    const Level level(*this);
    const size_t line = current().line;
    const auto missing = missing_;
    size_t links = 0;
    ExpressionPtr value = parse_or();
    while (take_name("if")) {
      count_link(links);
      ExpressionPtr condition = parse_or();
      ExpressionPtr otherwise = take_name("else") ? parse_expression() : nullptr;
      missing_ = missing;
      value = made(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
    }
    return value;
  }

  ExpressionPtr parse_or() {
    return parse_logical("or", false, [this] { return parse_and(); });
  }
  ExpressionPtr parse_and() {
    return parse_logical("and", true, [this] { return parse_not(); });
  }

  template <class Operand>
  ExpressionPtr parse_logical(const char* word, bool is_and, Operand operand) {
    const size_t line = current().line;
    size_t links = 0;
    ExpressionPtr left = operand();
    while (take_name(word)) {
      count_link(links);
      ExpressionPtr right = operand();
      left = made(line, Logical{is_and, std::move(left), std::move(right)});
    }
    return left;
  }

  ExpressionPtr parse_not() {
    const size_t line = current().line;
    if (!take_name("not")) return parse_comparison();
    const Level level(*this);
    return made(line, Unary{Prefix::logical_not, parse_not()});
  }

  std::optional<Comparator> take_comparator() {
    static constexpr std::array<std::pair<std::string_view, Comparator>, 6> kSymbols = {
        {{"==", Comparator::equal},
         {"!=", Comparator::unequal},
         {"<", Comparator::less},
         {"<=", Comparator::less_equal},
         {">", Comparator::greater},
         {">=", Comparator::greater_equal}}};
    for (const auto& [symbol, comparator] : kSymbols)
      if (take_op(symbol)) return comparator;
    if (take_name("in")) return Comparator::in;
    if (!current().is_name("not") || !following().is_name("in")) return std::nullopt;
    at_ += 2;
    return Comparator::not_in;
  }

  ExpressionPtr parse_comparison() {
    const size_t line = current().line;
    Comparison comparison{parse_sum(), {}};
    while (const auto comparator = take_comparator())
      comparison.others.emplace_back(*comparator, parse_sum());
    if (comparison.others.empty()) return std::move(comparison.first);
    return made(line, std::move(comparison));
  }

  using Symbols = std::initializer_list<std::pair<const char*, Operator>>;

  template <class Operand>
  ExpressionPtr parse_chain(Symbols symbols, Operand operand) {
    const size_t line = current().line;
    size_t links = 0;
    ExpressionPtr left = operand();
    while (true) {
      const auto* found =
          std::ranges::find_if(symbols, [&](const auto& symbol) { return take_op(symbol.first); });
      if (found == symbols.end()) return left;
      count_link(links);
      ExpressionPtr right = operand();
      left = made(line, Binary{found->second, std::move(left), std::move(right)});
    }
  }

  ExpressionPtr parse_sum() {
    return parse_chain({{"+", Operator::add}, {"-", Operator::subtract}},
                       [this] { return parse_concatenation(); });
  }

  ExpressionPtr parse_concatenation() {
    const size_t line = current().line;
    Concatenation concatenation;
    concatenation.parts.push_back(parse_product());
    while (take_op("~")) concatenation.parts.push_back(parse_product());
    if (concatenation.parts.size() == 1) return std::move(concatenation.parts[0]);
    return made(line, std::move(concatenation));
  }

  ExpressionPtr parse_product() {
    return parse_chain({{"*", Operator::multiply},
                        {"/", Operator::divide},
                        {"//", Operator::floor_divide},
                        {"%", Operator::modulo}},
                       [this] { return parse_power(); });
  }

  // From left to right, and with a sign binding closer: not as in Python.
  ExpressionPtr parse_power() {
    return parse_chain({{"**", Operator::power}}, [this] { return parse_unary(true); });
  }

  ExpressionPtr parse_unary(bool with_filters) {
    const Level level(*this);
    const size_t line = current().line;
    ExpressionPtr value;
    if (take_op("-"))
      value = made(line, Unary{Prefix::minus, parse_unary(false)});
    else if (take_op("+"))
      value = made(line, Unary{Prefix::plus, parse_unary(false)});
    else
      value = parse_primary();
    size_t links = 0;
    value = parse_postfix(std::move(value), links);
    while (with_filters) {
      if (current().is_op("|"))
        value = parse_filters(std::move(value), false, &links);
      else if (current().is_name("is"))
        value = parse_test(std::move(value));
      else if (current().is_op("("))
        value = parse_call(std::move(value));
      else
        break;
      count_link(links);
    }
    return value;
  }

  ExpressionPtr parse_primary() {
    const Token& token = current();
    const size_t line = token.line;
    if (token.kind == TokenKind::name) {
      take();
      return made_of_name(token);
    }
    if (token.kind == TokenKind::number) {
      take();
      return made(line,
                  Constant{std::visit([](auto number) { return Value(number); }, token.number)});
    }
    if (token.kind == TokenKind::string) {
      std::string text;
      while (current().kind == TokenKind::string) text += take().text;
      return made(line, Constant{Text{std::make_shared<const std::string>(std::move(text))}});
    }
    if (take_op("(")) {
      ExpressionPtr value =
          current().is_op(")") ? made(line, ListLiteral{{}, true}) : parse_tuple({});
      expect_op(")");
      return value;
    }
    if (take_op("[")) return parse_list(line);
    if (take_op("{")) return parse_dict(line);
    fail_expecting("an expression");
  }

  ExpressionPtr made_of_name(const Token& token) {
    const std::string& word = token.text;
    if (word == "true" || word == "True") return made(token.line, Constant{true});
    if (word == "false" || word == "False") return made(token.line, Constant{false});
    if (word == "none" || word == "None") return made(token.line, Constant{None{}});
    if (word == "caller") mentioned_[0] = true;
    if (word == "kwargs") mentioned_[1] = true;
    if (word == "varargs") mentioned_[2] = true;
    return made(token.line, Name{word});
  }

  ExpressionPtr parse_list(size_t line) {
    ListLiteral list{{}, false};
    while (!take_op("]")) {
      if (!list.elements.empty()) expect_op(",");
      if (take_op("]")) break;
      list.elements.push_back(parse_expression());
    }
    return made(line, std::move(list));
  }

  ExpressionPtr parse_dict(size_t line) {
    DictLiteral dict;
    while (!take_op("}")) {
      if (!dict.items.empty()) expect_op(",");
      if (take_op("}")) break;
      ExpressionPtr key = parse_expression();
      expect_op(":");
      dict.items.emplace_back(std::move(key), parse_expression());
    }
    return made(line, std::move(dict));
  }

  ExpressionPtr parse_postfix(ExpressionPtr value, size_t& links) {
    while (true) {
      const size_t line = current().line;
      if (take_op(".")) {
        if (current().kind == TokenKind::number &&
            std::holds_alternative<int64_t>(current().number)) {
          ExpressionPtr index = made(line, Constant{std::get<int64_t>(take().number)});
          value = made(line, Subscript{std::move(value), std::move(index)});
        } else {
          value = made(line, Attribute{std::move(value), name("the name of an attribute")});
        }
      } else if (take_op("[")) {
        value = parse_subscript(std::move(value), line);
      } else if (current().is_op("(")) {
        value = parse_call(std::move(value));
      } else {
        return value;
      }
      count_link(links);
    }
  }

  ExpressionPtr parse_subscript(ExpressionPtr object, size_t line) {
    auto at_end = [&] {
      return current().is_op(":") || current().is_op("]") || current().is_op(",");
    };
    auto bound = [&] { return at_end() ? nullptr : parse_expression(); };
    ExpressionPtr first = bound();
    if (take_op(":")) {
      ExpressionPtr end = bound();
      ExpressionPtr step = take_op(":") ? bound() : nullptr;
      expect_op("]");
      return made(line,
                  Slice{std::move(object), std::move(first), std::move(end), std::move(step)});
    }
    if (!first || current().is_op(",")) {
      ListLiteral tuple{{}, true};
      if (first) tuple.elements.push_back(std::move(first));
      while (take_op(",")) tuple.elements.push_back(parse_expression());
      first = made(line, std::move(tuple));
    }
    expect_op("]");
    return made(line, Subscript{std::move(object), std::move(first)});
  }

  CallArguments parse_arguments() {
    expect_op("(");
    const size_t line = current().line;
    CallArguments arguments;
    auto require = [&](bool holds) {
      if (!holds)
        fail_at(line,
                "found the arguments of a call in another order, expected f(a, b=c, *d, **e)");
    };
    for (bool is_first = true; !take_op(")");) {
      if (!std::exchange(is_first, false)) {
        expect_op(",");
        if (take_op(")")) break;
      }
      if (take_op("*")) {
        require(!arguments.unpacked && !arguments.unpacked_named);
        arguments.unpacked = parse_expression();
      } else if (take_op("**")) {
        require(!arguments.unpacked_named);
        arguments.unpacked_named = parse_expression();
      } else if (current().kind == TokenKind::name && following().is_op("=")) {
        require(!arguments.unpacked_named);
        std::string key = take().text;
        take();
        arguments.named.emplace_back(std::move(key), parse_expression());
      } else {
        require(!arguments.unpacked && !arguments.unpacked_named && arguments.named.empty());
        arguments.positional.push_back(parse_expression());
      }
    }
    return arguments;
  }

  ExpressionPtr parse_call(ExpressionPtr callee) {
    const size_t line = current().line;
    return made(line, Call{std::move(callee), parse_arguments()});
  }

  std::string dotted_name(const char* expected) {
    std::string word = name(expected);
    while (take_op(".")) word += "." + name(expected);
    return word;
  }

  // As jinja2 has it, filters and tests that are not there may stand where an `if` decides whether
  // they are needed; that of an expression stands behind them.
  void note_missing(size_t line, std::string message) {
    if (!is_soft_ && !missing_) missing_.emplace(line, std::move(message));
  }

  ExpressionPtr parse_filters(ExpressionPtr value, bool is_inline, size_t* links = nullptr) {
    size_t own_links = 0;
    while (is_inline || take_op("|")) {
      is_inline = false;
      count_link(links ? *links : own_links);
      const size_t line = current().line;
      std::string filter = dotted_name("the name of a filter");
      if (!has_filter(filter)) note_missing(line, no_filter(filter));
      CallArguments arguments = current().is_op("(") ? parse_arguments() : CallArguments{};
      value = made(line, Filtered{std::move(value), std::move(filter), std::move(arguments)});
    }
    return value;
  }

  ExpressionPtr parse_test(ExpressionPtr value) {
    const size_t line = take().line;
    const bool is_negated = take_name("not");
    std::string test = dotted_name("the name of a test");
    if (!has_test(test)) note_missing(line, no_test(test));
    CallArguments arguments;
    const Token& token = current();
    const bool has_value = token.kind == TokenKind::string || token.kind == TokenKind::number ||
                           token.kind == TokenKind::name || token.is_op("[") || token.is_op("{");
    if (token.is_op("(")) {
      arguments = parse_arguments();
    } else if (has_value && !token.is_name("else") && !token.is_name("or") &&
               !token.is_name("and")) {
      if (token.is_name("is")) fail_expecting("one test");
      size_t links = 0;
      ExpressionPtr argument = parse_primary();
      arguments.positional.push_back(parse_postfix(std::move(argument), links));
    }
    ExpressionPtr tested =
        made(line, Tested{std::move(value), std::move(test), std::move(arguments)});
    return is_negated ? made(line, Unary{Prefix::logical_not, std::move(tested)})
                      : std::move(tested);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0, depth_ = 0;
  size_t loops_ = 0;      // that `break` may leave
  size_t fors_ = 0;       // around what is parsed
  bool is_soft_ = false;  // within an if
  std::optional<std::pair<size_t, std::string>>
      missing_;  // a filter or test: its line and a message
  bool has_generation_ = false;
  std::array<bool, 3> mentioned_{};  // caller, kwargs, varargs
};

}  // namespace

Syntax parse(std::string_view source) { return Parser(source).parse(); }

}  // namespace longshore::data::jinja
