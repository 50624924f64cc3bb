#!/usr/bin/env python3
"""Writes man pages, or completions for bash and zsh, of what programs say of themselves with --help.

usage: from_help.py man|completions FOLDER LAUNCHER PROGRAM...

Files appear under FOLDER as installations have them: man/man1/longshore-train.1, bash-completion/completions/train,
zsh/site-functions/_train. LAUNCHER is packaging/longshore, which runs the others; its files need none of theirs.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys

# What values stand for that --help does not list.
OF_OPTIONS = {"--config": "configs", "--policies": "policies", "--hardware": "profiles", "--sweep": "keys"}
OF_KEYS = {"model_name": "models", "hardware": "profiles", "remat_policy": "policies",
           "remat_policy_for_vit": "policies"}
# Programs that go on as another with these arguments.
GOES_ON = {"tokenize": ["--teacher", "."]}


def templates(doc):
    """The names of chat templates where a value is one of them, or a file."""
    found = re.search(r"((?:\w+, )+\w+)[,;] a \.jinja file", doc)
    return [*re.findall(r"\b(auto|none)\b[,;:]", doc), *found[1].split(", ")] if found else []


@dataclasses.dataclass
class Option:
    names: list
    value: str  # "" for a flag; else what CLI11 calls it: TEXT:FILE, INT=5
    doc: str

    def choices(self):
        if found := re.search(r"\{([^}]*)\}", self.value):
            return found[1].split(",")
        if found := re.match(r"(\w+_\w+) or (\w+_\w+): ", self.doc):
            return [*found.groups()]
        return templates(self.doc)

    def kind(self):
        """What completes its value: "", "choices", "configs" and so on, "folders", "files", "choices_files"."""
        name = self.names[-1]
        if not self.value.startswith("TEXT"):
            return ""
        if name in OF_OPTIONS:
            return ("all_" if re.search(r"\ball\b", self.doc) else "") + OF_OPTIONS[name]
        if self.choices():
            return "choices_files" if templates(self.doc) else "choices"
        is_file = ":" in self.value or re.search(r"\bfiles?\b|\bfolder\b|\.html\b", self.doc)
        return "folders" if ":DIR" in self.value else "files" if is_file else ""


@dataclasses.dataclass
class Key:
    name: str
    default: str
    doc: str

    def choices(self):
        """The words of its values, from the brackets at the end of its help; none where there are others."""
        if templates(self.doc):
            return templates(self.doc)
        values = last_brackets(self.doc)
        values = re.sub(r", or two of them:.*|, each once", "", values)
        if " out of " in values:
            values = values.split(" out of ")[1]
        elif re.match(r"(an integer|a number) .*, or [a-z]+$", values):
            values = values.split(", or ")[-1]
        words = re.split(r", or |, | or ", values)
        is_words = all(re.fullmatch(r"\w[\w.-]*", word) and not word.isdigit() for word in words)
        return words if is_words and words != ["text"] else []

    def kind(self):
        if self.name in OF_KEYS:
            return OF_KEYS[self.name]
        if templates(self.doc):
            return "choices_files"
        return "choices" if self.choices() else "files" if last_brackets(self.doc).startswith("a path") else ""


@dataclasses.dataclass
class Help:
    program: str
    version: str
    description: list = dataclasses.field(default_factory=list)  # lines
    usage: str = ""
    positionals: list = dataclasses.field(default_factory=list)  # pairs of a name and what it is
    options: list = dataclasses.field(default_factory=list)
    footer: list = dataclasses.field(default_factory=list)  # lines and Keys
    policies: list = dataclasses.field(default_factory=list)

    def keys(self):
        """Those that a command line may have."""
        return [line for line in self.footer if isinstance(line, Key) and line.name != "base_config"]

    def takes_files(self):
        return any(not name.startswith("key=value") for name, _ in self.positionals)


def last_brackets(text):
    """What stands in the brackets at the end, which may hold others."""
    if not text.endswith("]"):
        return ""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == "]") - (text[place] == "[")
        if depth == 0:
            return text[place + 1:-1]
    return ""


def printed(program, *arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def parse(program, version, text):
    """A Help of what the program printed."""
    found, part = Help(program, version), "description"
    for line in text.split("\n"):
        line = line.rstrip()
        if line.startswith("Usage: "):
            found.usage, part = line.removeprefix("Usage: "), "options"
        elif part == "description":
            found.description.append(line)
        elif part != "footer" and line in ("Positionals:", "Options:"):
            part = line.lower().rstrip(":")
        elif part != "footer" and (not line.strip() or line.startswith("[Option Group") or line.startswith(" ")):
            parse_option(found, part, line)
        else:
            part = "footer"
            parse_footer(found, line)
    while found.description and not found.description[-1]:
        found.description.pop()
    found.policies = [match[1] for line in after(found.footer, "remat policies:")
                      if (match := re.match(r"  (\w+): ", line))]
    return found


def after(lines, heading):
    return lines[lines.index(heading) + 1:] if heading in lines else []


def parse_option(found, part, line):
    if match := re.match(r"\s+((?:-\w,)?--[\w-]+)(?:\{\w+\})?(?: (.*?))?(?:\s{2,}(\S.*))?$", line):
        # Of a value that is long, the rest stands where the help does.
        value = re.sub(r"\s*(REQUIRED|(Needs|Excludes):.*)|\s+\.\.\.$", "", match[2] or "").strip()
        found.options.append(Option(match[1].split(","), value, match[3] or ""))
    elif part == "positionals" and (match := re.match(r"  (\S.*?)(?:\s{2,}(\S.*))?$", line)):
        found.positionals.append([match[1], match[2] or ""])
    elif match := re.match(r"\s{10,}(\S.*)$", line):
        if part == "positionals" and found.positionals:
            found.positionals[-1][1] = (found.positionals[-1][1] + " " + match[1]).strip()
        elif found.options:
            found.options[-1].doc = (found.options[-1].doc + " " + match[1]).strip()


def parse_footer(found, line):
    match = re.match(r"  (\w+)(?: = (\S.*?))?\s{2,}(\S.*)$", line)
    if match and (match[2] or match[1] == "base_config"):
        found.footer.append(Key(match[1], match[2] or "", match[3]))
    else:
        found.footer.append(line)


def help_of(program):
    """What a program, and what it goes on as, say of themselves."""
    name = pathlib.Path(program).name
    version = printed(program, "--version").split("\n")[0]
    found = parse(name, version, printed(program, "--help"))
    if name in GOES_ON:
        other = parse(name, version, printed(program, *GOES_ON[name], "--help"))
        known = {option.names[-1] for option in found.options}
        found.options += [option for option in other.options if option.names[-1] not in known]
        found.footer += ["", f"with {GOES_ON[name][0]}:", *other.keys()]
    return found


def take_keys(found, train):
    """Keys of which a program says that they are as train has them."""
    for _, doc in found.positionals:
        if ", as train has them" in doc:
            names = re.findall(r"\w+_\w+", doc.split(", as train")[0])
            found.footer += ["keys", *(key for key in train.keys() if key.name in names)]


# --- man

def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("\u2019", "\\(aq")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_text(lines):
    """Paragraphs; lines that are indented stay as they are."""
    made, is_literal = [], False
    for line in lines:
        if line.startswith(" ") != is_literal and line:
            made.append(".fi" if is_literal else ".nf")
            is_literal = not is_literal
        made.append(escaped(line) if line else (".PP" if not is_literal else ""))
    return made + ([".fi"] if is_literal else [])


def man(found):
    summary = " ".join(found.description).split(". ")[0].split("; ")[0].rstrip(".")
    page = [f'.TH LONGSHORE\\-{found.program.upper()} 1 "" "{found.version}" "Longshore"', ".SH NAME",
            f"longshore\\-{found.program} \\- {escaped(summary[0].lower() + summary[1:])}", ".SH SYNOPSIS",
            f".B {found.program}", escaped(found.usage.removeprefix(found.program).strip()), ".SH DESCRIPTION",
            *man_text(found.description), ".SH OPTIONS"]
    for name, doc in found.positionals:
        page += [".TP", f"\\fI{escaped(name)}\\fR", escaped(doc)]
    for option in found.options:
        page += [".TP", ", ".join(f"\\fB{escaped(name)}\\fR" for name in option.names) +
                 (f" \\fI{escaped(option.value)}\\fR" if option.value else ""), escaped(option.doc)]
    if any(line for line in found.footer):
        page += [".SH KEYS"]
        text = []
        for line in [*found.footer, None]:
            is_heading = isinstance(line, str) and re.fullmatch(r"[\w -]+:?", line) and not line.startswith(" ")
            if isinstance(line, str) and not is_heading:
                text.append(line)
                continue
            page += man_text(text) if any(text) else []
            text = []
            if is_heading:
                page += [f".SS {escaped(line.rstrip(':'))}"]
            elif line:
                default = f" = {escaped(line.default)}" if line.default else ""
                page += [".TP", f"\\fB{escaped(line.name)}\\fR{default}", escaped(line.doc)]
    page += [".SH EXIT STATUS",
             "0 on success, 2 if the config or the command line has to change, 1 for everything else.",
             ".SH SEE ALSO", ", ".join(f"\\fB{other}\\fR(1)" for other in ["longshore", *(
                 f"longshore\\-{name}" for name in NAMES if name != found.program)])]
    return "\n".join(page) + "\n"


# --- completions

# In both shells: the folder of configs beside the program, in a build or where it is installed, also by pip. Other
# programs have names like these, and none has that.
CONFIGS = """{name}_configs() {{
  local program=$(realpath -- "$(type -P -- "$1" 2>/dev/null || echo "$1")" 2>/dev/null) folder
  program=${{program%/*}}
  for folder in "$program/../../configs" "$program/../share/longshore/configs" \\
    "$program"/../lib/python3*/*-packages/longshore/share/longshore/configs; do
    if [ -d "$folder/models" ]; then echo "$folder"; return; fi
  done
}}
"""

BASH = """# bash completion of Longshore's {program}
_longshore_{program}{configs}
# The words for what is completed, of a kind; `arguments` are those of its choices.
_longshore_{program}_words() {{
  local configs=$1 kind=$2
  case $kind in
    configs) (cd "$configs" && printf '%s\\n' *.yml) ;;
    models) (cd "$configs/models" && printf '%s\\n' *.yml) | sed 's/\\.yml$//' ;;
    profiles | all_profiles) (cd "$configs/hardware" && printf '%s\\n' *.yml) | sed 's/\\.yml$//' ;;
    policies | all_policies) printf '%s\\n' {policies} ;;
    keys) printf '%s=\\n' {keys} ;;
    choices | choices_files) printf '%s\\n' "${{@:3}}" ;;
  esac
  if [[ $kind == all_* ]]; then echo all; fi
}}

# Offers the lines that begin with what is being completed, as they are: `compgen -W` would run what is in them.
_longshore_{program}_offer() {{
  local word
  while IFS= read -r word; do
    if [[ $word == "$current"* ]]; then COMPREPLY+=("$word"); fi
  done
}}

_longshore_{program}() {{
  local line=${{COMP_LINE:0:COMP_POINT}} configs kind='' before=''
  configs=$(_longshore_{program}_configs "${{COMP_WORDS[0]}}")
  COMPREPLY=()
  if [ -z "$configs" ]; then compopt -o default; return; fi  # another program of that name
  local current=${{line##*[[:space:]]}}
  local -a words
  read -ra words <<<"${{line%"$current"}}"
  local previous=${{words[-1]}}
  # --option=value and key=value are words of their own; of "a,b" what is behind the last comma.
  local is_value=''
  if [[ $current == *=* ]]; then is_value=1 previous=${{current%%=*}} current=${{current#*=}}; fi
  local -a choices=()
  case $previous in
{cases}
    *)
      if [ -n "$is_value" ]; then return; fi
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "{options}" -- "$current"))
        return
      fi
{positionals}
      return ;;
  esac
  if [[ $current == *,* && $kind != *files ]]; then before=${{current%,*}}, current=${{current##*,}}; fi
  _longshore_{program}_offer < <(_longshore_{program}_words "$configs" "$kind" "${{choices[@]}}")
  case $kind in
    *files | configs | *profiles) _longshore_{program}_offer < <(compgen -f -- "$current"); compopt -o filenames ;;
    folders) _longshore_{program}_offer < <(compgen -d -- "$current"); compopt -o filenames ;;
    keys) compopt -o nospace ;;
  esac
  COMPREPLY=("${{COMPREPLY[@]/#/$before}}")
}}
complete -F _longshore_{program} {program}
"""

# Behind `longshore PROGRAM`, what is behind the program by itself: its functions do not look at the words before.
BASH_LAUNCHER = """# bash completion of longshore
{functions}
_longshore() {{
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{names}" -- "${{COMP_WORDS[1]}}"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
    {programs}) "_longshore_${{COMP_WORDS[1]}}" ;;
    *) compopt -o default ;;
  esac
}}
complete -F _longshore longshore
"""

KEYS = """      _longshore_{program}_offer < <(_longshore_{program}_words "$configs" keys)
      if [ ${{#COMPREPLY[@]}} != 0 ]; then compopt -o nospace; fi"""
FILES = """      _longshore_{program}_offer < <(compgen -f -- "$current")
      compopt -o filenames"""

ZSH = """#compdef {program}
# zsh completion of Longshore's {program}
_longshore_{program}{configs}
_longshore_{program}_value() {{
  local kind=$1 configs=$2
  shift 2
  local -a values
  if [[ $kind == all_* ]]; then compadd all; fi
  case $kind in
    configs) values=("$configs"/*.yml(N:t)); compadd -a values; _files; return ;;
    models) values=("$configs"/models/*.yml(N:t:r)) ;;
    *profiles) values=("$configs"/hardware/*.yml(N:t:r)); compadd -a values; _files; return ;;
    *policies) values=({policies}) ;;
    keys) values=({keys}); compadd -S '=' -q -a values; return ;;
    choices) values=("$@") ;;
    choices_files) values=("$@"); compadd -a values; _files; return ;;
    folders) _files -/; return ;;
    files) _files; return ;;
  esac
  compset -P '*,'
  compadd -a values
}}

_longshore_{program}_key() {{
  local configs=$1
  if ! compset -P 1 '*='; then _longshore_{program}_value keys "$configs"; return; fi
  case ${{${{IPREFIX%=}}##*[[:space:]]}} in
{key_cases}
  esac
}}

_longshore_{program}() {{
  local configs=$(_longshore_{program}_configs "$words[1]")
  if [[ -z $configs ]]; then _default; return; fi  # another program of that name
  _arguments -S \\
{arguments}
}}
if [ "$funcstack[1]" = _{program} ]; then _longshore_{program} "$@"; else compdef _longshore_{program} {program}; fi
"""


ZSH_LAUNCHER = """#compdef longshore
# zsh completion of longshore
{functions}
_longshore() {{
  if (( CURRENT == 2 )); then compadd -- {names}; return; fi
  case $words[2] in
    {programs}) ;;
    *) _default; return ;;
  esac
  local program=$words[2]
  words[2]=()
  (( CURRENT-- ))
  _longshore_$program
}}
if [ "$funcstack[1]" = _longshore ]; then _longshore "$@"; else compdef _longshore longshore; fi
"""


def quoted(words):
    return " ".join(words)  # none has what a shell reads otherwise


def bash(found):
    cases = []
    for names, kind, choices in [*((option.names, option.kind(), option.choices()) for option in found.options),
                                 *(([key.name], key.kind(), key.choices()) for key in found.keys())]:
        if kind:
            chosen = f" choices=({quoted(choices)})" if kind.startswith("choices") else ""
            cases.append(f"    {' | '.join(names)}) kind={kind}{chosen} ;;")
    taken = [" | ".join(option.names) for option in found.options if option.value and not option.kind()]
    if taken:
        cases.append(f"    {' | '.join(taken)}) return ;;")  # a number or a text
    positionals = [KEYS.format(program=found.program)] if found.keys() else []
    positionals += [FILES.format(program=found.program)] if found.takes_files() else []
    return BASH.format(program=found.program, configs=CONFIGS.format(name=""), cases="\n".join(cases),
                       policies=quoted(found.policies), keys=quoted(key.name for key in found.keys()),
                       options=quoted(name for option in found.options for name in option.names),
                       positionals="\n".join(positionals))


def zsh(found):
    function = f"_longshore_{found.program}_value"

    def argument(option):
        doc = re.sub(r"([\[\]:\\])", r"\\\1", option.doc).replace("'", "'\\''")
        names = option.names[0] if len(option.names) == 1 else "(" + " ".join(option.names) + ")'{" + \
            ",".join(option.names) + "}'"
        if not option.kind():
            return f"    '{names}[{doc}]{':value: ' if option.value else ''}' \\"
        chosen = f" {quoted(option.choices())}" if option.kind().startswith("choices") else ""
        equals = "=" if option.names[-1].startswith("--") and len(option.names) == 1 else ""
        value = f':value:{{{function} {option.kind()} "$configs"{chosen}}}'
        return f"    '*{names}{equals}[{doc}]{value}' \\"

    key_cases = []
    for key in found.keys():
        if key.kind():
            chosen = f" {quoted(key.choices())}" if key.kind().startswith("choices") else ""
            key_cases.append(f'    {key.name}) {function} {key.kind()} "$configs"{chosen} ;;')
    rest = [f"_longshore_{found.program}_key \"$configs\""] if found.keys() else []
    rest = "    '*:argument:{" + "; ".join(rest + (["_files"] if found.takes_files() else [])) + "}'"
    configs = CONFIGS.format(name="").replace("type -P", "whence -p").replace("share/longshore/configs; do",
                                                                           "share/longshore/configs(N); do")
    return ZSH.format(program=found.program, configs=configs,
                      policies=quoted(found.policies), keys=quoted([key.name for key in found.keys()]),
                      key_cases="\n".join(key_cases) or "    *) ;;",
                      arguments="\n".join([*(argument(option) for option in found.options), rest]))


# What `longshore` itself reads.
LAUNCHED = ["quickstart-data", "export-metrics"]


def launched(template, functions):
    """Of the launcher: `functions` are those of programs, without what says whose they are."""
    return template.format(functions="\n".join(functions), programs=" | ".join(NAMES),
                           names=quoted([*NAMES, *LAUNCHED, "--help", "--version"]))


def man_of_launcher(text, version):
    """Of what the launcher says with --help."""
    summary, _, rest = text.partition("\n")
    return "\n".join([f'.TH LONGSHORE 1 "" "{version}" "Longshore"', ".SH NAME",
                      f"longshore \\- {escaped(summary[0].lower() + summary[1:].rstrip('.'))}", ".SH DESCRIPTION",
                      ".nf", *(escaped(line) for line in rest.strip().split("\n")), ".fi", ".SH SEE ALSO",
                      ", ".join(f"\\fBlongshore\\-{name}\\fR(1)" for name in NAMES)]) + "\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) < 5 or sys.argv[1] not in ("man", "completions"):
        sys.exit(__doc__)
    folder, launcher, programs = pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
    NAMES = [pathlib.Path(program).name for program in programs]
    helps = [help_of(program) for program in programs]
    for of_program in helps:
        take_keys(of_program, next((other for other in helps if other.program == "train"), of_program))
    if sys.argv[1] == "man":
        for of_program in helps:
            write(folder / f"man/man1/longshore-{of_program.program}.1", man(of_program))
        write(folder / "man/man1/longshore.1", man_of_launcher(printed(launcher, "--help"), helps[0].version))
    else:
        completions, functions = folder / "bash-completion/completions", folder / "zsh/site-functions"
        in_bash, in_zsh = {name: bash(found) for name, found in zip(NAMES, helps)}, dict(zip(NAMES, map(zsh, helps)))
        for name in NAMES:
            write(completions / name, in_bash[name])
            write(functions / f"_{name}", in_zsh[name])
        # Without the last line, which says whose they are, as does the first one of zsh's.
        write(completions / "longshore", launched(
            BASH_LAUNCHER, ["\n".join(text.split("\n")[:-2]) + "\n" for text in in_bash.values()]))
        write(functions / "_longshore", launched(
            ZSH_LAUNCHER, ["\n".join(text.split("\n")[1:-2]) + "\n" for text in in_zsh.values()]))
