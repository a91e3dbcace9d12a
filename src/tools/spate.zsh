#compdef spate
# SPDX-License-Identifier: Apache-2.0
# Completion of `spate` for zsh: the command itself knows what may follow (also names inside the file system).
_spate() {
  local line candidate files=
  local -a before plain described
  # As the shell would give them to the command; the last one is begun, and its quoting is zsh's own affair.
  before=("${(@Q)words[2,CURRENT-1]}")
  while IFS= read -r line; do
    if [[ $line == @files ]]; then
      files=1
    elif [[ $line == *$'\t'* ]]; then
      candidate=${line%%$'\t'*}
      described+=("${candidate//:/\\:}:${line#*$'\t'}")
    else
      plain+=("$line")
    fi
  done < <("${(Q)words[1]}" complete --described -- "${before[@]}" "${(Q)PREFIX}" 2> /dev/null)
  ((${#described})) && _describe spate described
  # What goes on after it gets no blank behind it.
  ((${#plain})) && compadd -- ${plain:#*[/=]}
  ((${#plain})) && compadd -S '' -- ${(M)plain:#*[/=]}
  [[ -z $files ]] || _files
}
# Loaded by compinit as the body of this function, or sourced.
if [[ $funcstack[1] == _spate ]]; then
  _spate "$@"
else
  compdef _spate spate
fi
