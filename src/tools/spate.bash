# SPDX-License-Identifier: Apache-2.0
# Completion of `spate` for bash: the command itself knows what may follow (also names inside the file system).

_spate() {
  local line=${COMP_LINE:0:COMP_POINT} word candidate
  local -a words candidates
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  word=${words[-1]}
  # bash replaces only what follows the last colon of a word.
  local cut=''
  [[ $word == *:* && $COMP_WORDBREAKS == *:* ]] && cut=${word%"${word##*:}"}
  COMPREPLY=()
  mapfile -t candidates < <("${words[0]}" complete -- "${words[@]:1}" 2> /dev/null)
  for candidate in "${candidates[@]}"; do
    if [[ $candidate == @files ]]; then
      compopt -o filenames
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
    else
      [[ $candidate == */ ]] && compopt -o nospace
      COMPREPLY+=("$(printf '%q' "${candidate#"$cut"}")")
    fi
  done
}
complete -F _spate spate
