"""Tricks by which a line gets something started that is not on the list `ls, echo, cat`: data, each with a
name and why.

`{evil}` is the canary's path, `{bin}` the folder with the listed programs (and the canary `evil`), `{here}`
the working folder, which holds canaries called `evil`, `ls` and `-la`. What is started at all may start
nothing but the list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Trap:
    """One trick. `passes` names the lists that let it pass because it is none there: "names", "rules"."""

    name: str
    why: str
    line: str | None = None
    argv: tuple[str, ...] | None = None
    script: str | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    passes: tuple[str, ...] = ()


def _line(name: str, line: str, why: str, *passes: str, **env: str) -> Trap:
    return Trap(name=name, line=line, why=why, passes=passes, env=env)


def _argv(name: str, argv: tuple[str, ...], why: str, *passes: str, **env: str) -> Trap:
    return Trap(name=name, argv=argv, why=why, passes=passes, env=env)


def _script(name: str, script: str, why: str) -> Trap:
    return Trap(name=name, argv=("/bin/bash",), script=script, why=why)


_BOTH = ("names", "rules")

TRAPS = (
    # what one line can hold besides its first word
    _line("semicolon", "ls; evil", "a second command"),
    _line("semicolon without blanks", "ls;evil", "blanks are not needed"),
    _line("and", "ls && evil", "runs after a success"),
    _line("or", "ls /none || evil", "runs after a failure"),
    _line("pipe", "echo x | evil", "each part of a pipe is a command"),
    _line("pipe of both streams", "echo x |& evil", "bash's other pipe"),
    _line("background", "ls & evil", "an ampersand parts commands too"),
    _line("background without blanks", "ls&evil", "as above"),
    _line("newline", "ls\nevil", "a line break parts commands"),
    _line("carriage return", "ls\revil", "no line break for bash, but a word that nobody means"),
    _line("vertical tab", "ls \v evil", "no blank for bash"),
    _line("form feed", "ls\fevil", "no blank for bash"),
    _line("no-break space", "ls\u00a0evil", "looks like a blank"),
    _line("tabs", "ls\t;\tevil", "tabs are blanks"),
    _line("line continuation", "ec\\\nho x; evi\\\nl", "a backslash takes the line break away"),
    _line("continued operator", "ls &\\\n& evil", "also within an operator"),
    _line("backslash in the name", "e\\vil", "quotes one letter"),
    _line("comment", "ls # ' \nevil", "a quote in a comment is none"),
    # substitutions
    _line("command substitution", "echo $(evil)", "runs before echo"),
    _line("command substitution in quotes", 'echo "$(evil)"', "double quotes do not stop it"),
    _line("backticks", "echo `evil`", "the old form"),
    _line("backticks in quotes", 'echo "`evil`"', "as above"),
    _line(
        "substitution in a default", 'echo "${X:-$(evil)}"', "a parser that knows ${…} only by name misses it"
    ),
    _line("substitution in arithmetic", "echo $(( $(evil) ))", "arithmetic expands first"),
    _line("subscript in arithmetic", "echo $((a[$(evil)]))", "a subscript is evaluated"),
    _line("old arithmetic", "echo $[ $(evil) ]", "bash still knows it"),
    _line("process substitution", "cat <(evil)", "a file that is a command"),
    _line("process substitution for output", "echo x > >(evil)", "the other way round"),
    _line("function substitution", "echo ${ evil; }", "bash 5.3"),
    _line("program from a variable", "X=evil; $X", "the first word is not what it says"),
    _line("program from a parameter", "${0##*/} -c evil", "bash's own name"),
    _line("prompt expansion", "X='$(evil)'; echo ${X@P}", "@P runs what is in a prompt"),
    _line("indirect expansion", "echo ${!X}", "names what it likes"),
    # here-documents and redirections
    _line("here-document", "cat <<E\n$(evil)\nE", "its text is expanded"),
    _line("quoted here-document", "cat <<'E'\nx\nE\nevil", "what follows it is a command"),
    _line("here-string", "cat <<< $(evil)", "as a here-document"),
    _line("redirection into a program", "echo x > {bin}/ls", "the list's own file"),
    _line("redirection before the name", "</dev/null evil", "the name is the second word"),
    # what stands before a name
    _line("assignment", "X=1 evil", "the name is the second word"),
    _line("PATH assignment", "PATH={here} ls", "another ls"),
    _line("LD_PRELOAD assignment", "LD_PRELOAD={evil} ls", "code in a listed program"),
    _line("array assignment", "a=($(evil))", "runs for the elements"),
    _line("negation", "! evil", "a reserved word"),
    _line("time", "time evil", "a reserved word"),
    _line("coproc", "coproc evil", "a reserved word"),
    # compound commands
    _line("group", "{{ evil; }}", "a list in braces"),
    _line("subshell", "(evil)", "a list in parentheses"),
    _line("if", "if evil; then ls; fi", "the condition is a command"),
    _line("while", "while evil; do break; done", "as above"),
    _line("for", "for x in 1; do evil; done", "its body is a list"),
    _line("case", "case x in x) evil;; esac", "its branches are lists"),
    _line("function", "ls() {{ evil; }}; ls", "ls is another thing now"),
    _line("function keyword", "function ls {{ evil; }}; ls", "as above"),
    _line("test", "[[ -v a[$(evil)] ]]", "a subscript runs"),
    _line("let", "let 'a[$(evil)]=1'", "as above"),
    # quoting
    _line("ANSI-C quoting", "$'\\x65vil'", "spells a name in codes"),
    _line("locale quoting", '$"evil"', "translated, whatever that becomes"),
    _line("quoted name", "'e'v\"il\"", "quotes within a name are taken away"),
    _line("quoted listed name", "'l's", "is ls, and nothing else", *_BOTH),
    _line("operators in quotes", "echo '; evil' \"&& evil\"", "are text", *_BOTH),
    _line("empty name", "'' evil", "an empty first word"),
    _line("unfinished quote", "echo 'x", "nobody knows where it ends"),
    _line("brace expansion", "{{evil,x}}", "a name made of pieces"),
    _line("brace in an argument", "echo {{a,b}}", "not understood, so not let pass"),
    _line("pattern as a name", "ev?l", "a name chosen by the files that are there"),
    _line("pattern of a path", "./e*", "as above"),
    _line(
        "pattern that becomes an option",
        "ls *",
        "files may be called like options; ls starts nothing by them",
        *_BOTH,
    ),
    _line("tilde", "~/evil", "a folder that a variable names"),
    _line("history expansion", "echo !! !-1", "for interactive shells only", *_BOTH),
    _line("NUL", "ls\0evil", "no program can be given one"),
    _line("escape sequence", "echo \x1b]0;evil\x07", "invisible characters are not worth a guess"),
    _line("text from right to left", "echo \u202e evil", "shown otherwise than it runs"),
    _line("Cyrillic letter", "l\u0455", "looks like ls"),
    _line("full-width letters", "\uff4c\uff53", "looks like ls"),
    _line("full-width semicolon", "echo \uff1b evil", "is a word for bash", *_BOTH),
    _line("lone surrogate", "echo \ud800", "no text at all"),
    _line("byte that is no UTF-8", "echo \udcff", "a byte of which nobody knows what it means"),
    # paths
    _line("absolute path", "{evil}", "not a name of the list"),
    _line("relative path", "./evil", "as above"),
    _line("listed name elsewhere", "./ls", "a file that is called like one of the list"),
    _line("listed name by an absolute path elsewhere", "{here}/ls", "as above"),
    _line("listed file by its path", "{bin}/ls", "the very file; names are compared as written", "rules"),
    _line("link to the canary", "./cat", "a link called like one of the list"),
    _line("path with dots", "{here}/../{here}/evil", "goes around"),
    _line("moved before", "cd {here} && ./ls", "decides what a relative path is"),
    _line("pushd", "pushd {here}; ls", "not on the list"),
    _line("job control", "%1 evil", "means fg"),
    # builtins that run, or change what runs
    _line("eval", "eval evil", "runs its words"),
    _line("exec", "exec evil", "runs its words"),
    _line("command", "command evil", "runs its words"),
    _line("builtin", "builtin eval evil", "runs its words"),
    _line("dot", ". {evil}", "runs a file"),
    _line("source", "source {evil}", "runs a file"),
    _line("trap", "trap evil EXIT; ls", "runs at the end"),
    _line("alias", "alias ls=evil; ls", "another ls"),
    _line("hash", "hash -p {evil} ls; ls", "another ls"),
    _line("enable", "enable -f {evil} ls; ls", "a builtin from a file"),
    _line("export", "export PATH={here}; ls", "another ls"),
    _line("printf", "printf -v 'a[$(evil)]' x", "bash runs a subscript"),
    _line("test builtin", "test -v 'a[$(evil)]'", "as above"),
    _line("unset", "unset 'a[$(evil)]'", "as above"),
    _line("mapfile", "echo x | mapfile -C evil -c 1", "a callback"),
    _line("PROMPT_COMMAND", "PROMPT_COMMAND=evil; ls", "runs before a prompt"),
    _line("complete", "complete -C evil ls; compgen -C evil x", "runs a command"),
    # redirections, variables and assignments
    _line(
        "dash's background", "ls &> /dev/null evil", "sh takes it for & and >, and runs what is behind that"
    ),
    _line("dash's background, later", "ls &> /dev/null 2>&1 evil", "as above"),
    _line("variable as the program", "$X", "what it holds is a program", X="{evil}"),
    _line("variable behind env", "env $X", "env starts what it names", X="{evil}"),
    _line("variable behind an operator", "ls; $X", "as above", X="{evil}"),
    _line("variable with a default", "echo ${X:-$(evil)}", "a default is expanded"),
    _line("variable by name", "echo ${!X}", "reads another one", X="a[$(evil)]"),
    _line("variable in arithmetic", "echo $((X))", "a subscript in it runs", X="a[$(evil)]"),
    _line("variable in old arithmetic", "echo $[X]", "as above", X="a[$(evil)]"),
    _line("variable as an argument", "echo $X", "what it holds is text", *_BOTH, X="; {evil} $({evil})"),
    _line("variable in quotes", 'echo "$X"', "as above", *_BOTH, X="`{evil}`"),
    _line("variable with IFS", "echo $X", "the shell sets IFS itself", X="aXb", IFS="X"),
    _line("process substitution read", "cat < <(evil)", "runs it"),
    _line("process substitution written", "echo x > >(evil)", "runs it"),
    _line("output into a file", "echo evil > {here}/made", "needs a rule that says so"),
    _line("output into both", "ls &> {here}/made", "as above"),
    _line("output into a file after nothing", "ls > /dev/null > {here}/made", "as above"),
    _line("input of the network", "cat < /dev/tcp/127.0.0.1/9", "bash dials"),
    _line("harmless redirections", "ls > /dev/null 2>&1 < {here}/evil", "start nothing", *_BOTH),
    _line("assignment of PATH", "PATH={here} ls", "another ls"),
    _line("assignment of IFS", "IFS=s ls", "decides where words end"),
    _line("assignment of BASH_ENV", "BASH_ENV={evil} ls", "a file that bash runs first"),
    _line("assignment behind a harmless one", "LANG=C LD_PRELOAD={evil} ls", "code in a listed program"),
    _line("assignment alone", "LANG=C; evil", "and a second command"),
    _line("assignment of a locale's place", "LOCPATH={here} LC_ALL=xx cat evil", "letters that are blanks"),
    _line("harmless assignments", "LANG=C TZ=UTC ls", "decide nothing", *_BOTH),
    # programs that start others
    _line("bash -c", "bash -c evil", "a shell"),
    _line("sh by its path", "/bin/sh -c evil", "a shell"),
    _line("env", "env evil", "runs the words behind it"),
    _line("env -S", "env -S 'evil x'", "splits them itself"),
    _line("xargs", "echo x | xargs evil", "runs for what it reads"),
    _line("find -exec", "find . -exec evil ;", "runs for what it finds"),
    _line("git -c", "git -c alias.x=!evil x", "an alias of git"),
    _line("nice", "nice evil", "runs the words behind it"),
    _line("timeout", "timeout 5 evil", "runs the words behind it"),
    _line("sudo", "sudo evil", "runs the words behind it"),
    _line("loader", "/lib64/ld-linux-x86-64.so.2 {evil}", "runs any file"),
    _line("awk", "awk 'BEGIN{{system(\"evil\")}}'", "system()"),
    # the command without a shell
    _argv("argv of another program", ("evil",), "not on the list"),
    _argv("argv by an absolute path", ("{evil}",), "not on the list"),
    _argv("argv of a file called like one of the list", ("./ls",), "the folder decides"),
    _argv("argv with a PATH of its own", ("ls",), "another ls", PATH="{here}"),
    _argv("argv that looks like a line", ("ls; evil",), "is one word, and no program"),
    _argv("argv with metacharacters", ("echo", "; evil", "$(evil)"), "are text", *_BOTH),
    _argv("argv of a shell", ("bash", "-c", "evil"), "a shell"),
    # variables
    _line("PATH", "ls", "another ls", PATH="{here}"),
    _line("PATH in front", "ls", "another ls", PATH="{here}:{bin}"),
    _line("BASH_ENV", "ls", "a file that bash runs first", BASH_ENV="{evil}"),
    _line("ENV", "ls", "the same for sh", ENV="{evil}"),
    _line("exported function", "ls", "another ls", **{"BASH_FUNC_ls%%": "() {{ evil; }}"}),
    _line("LD_PRELOAD", "ls", "code in a listed program", LD_PRELOAD="{evil}"),
    _line("LD_LIBRARY_PATH", "ls", "code in a listed program", LD_LIBRARY_PATH="{here}"),
    _line("IFS", "ls", "decides where words end", IFS="s"),
    _line("SHELLOPTS", "ls", "traces, by way of PS4", SHELLOPTS="xtrace", PS4="$(evil)"),
    _line("LOCPATH", "cat evil", "a locale in which letters are blanks", LOCPATH="{here}", LC_ALL="xx"),
    _line(
        "a .bashrc by ssh",
        "ls",
        "bash reads ~/.bashrc under sshd",
        *_BOTH,
        SSH_CLIENT="x",
        SHLVL="0",
        HOME="{here}",
    ),
    _line(
        "locale whose characters swallow bytes",
        "echo あ| cat",
        "another reading of the bytes",
        *_BOTH,
        LC_ALL="ja_JP.SJIS",
    ),
    Trap(name="secret BASH_ENV", why="a variable like others", line="ls", secrets={"BASH_ENV": "{evil}"}),
    Trap(name="secret PATH", why="as above", line="ls", secrets={"PATH": "{here}"}),
    _line("prepared shell line", "umask 0077\nevil", "what `outlive run` prepares is no excuse"),
    _line("prepared listed line", "umask 0077\nls", "what `outlive run` prepares is seen through", "rules"),
    _argv("prepared argv", ("/bin/sh", "-c", 'umask 0077; exec "$@"', "outlive", "evil"), "as above"),
    _argv(
        "prepared exec -a",
        ("/bin/sh", "-c", 'umask 0077; exec "$@"', "x", "-a", "ls", "evil"),
        "bash takes options",
    ),
    # scripts
    _script("script", "ls\nevil\n", "each line is a command"),
    _script("script with a vertical tab before a comment", "ls \v# ;evil\n", "no comment for bash"),
    _script("script with a comment sign in a word", "ls x#;evil\n", "no comment for bash"),
    _script("script with a line separator", "# \u2028evil\n# x\n", "a comment as a whole"),
    _script("script with a here-document", "cat <<E\n$(evil)\nE\n", "its text is expanded"),
    _script("script over two lines", "echo '\nevil\n' ; evil\n", "where a quote ends decides"),
)
