# SPDX-License-Identifier: Apache-2.0
# Completion of `spate` for bash: the command itself knows what may follow (also names inside the file system).

# Splits $line into `words` as the shell will: the last one is begun. `quote`: the quotation mark that is open there.
_spate_split() {
  local i char word='' begun=''
  words=() quote=''
  for ((i = 0; i < ${#line}; i++)); do
    char=${line:i:1}
    if [[ -n $quote && $char == "$quote" ]]; then
      quote=''
    elif [[ $quote == "'" || (-n $quote && $char != \\) ]]; then
      word+=$char
    elif [[ $char == \\ ]]; then
      ((++i))
      word+=${line:i:1} begun=1
    elif [[ $char == [\"\'] ]]; then
      quote=$char begun=1
    elif [[ $char == [[:space:]] ]]; then
      [[ -z $begun ]] || words+=("$word")
      word='' begun=''
    else
      word+=$char begun=1
    fi
  done
  words+=("$word")
}

_spate() {
  local line=${COMP_LINE:0:COMP_POINT} word candidate quote
  local -a words candidates
  _spate_split
  word=${words[-1]}
  # bash replaces only what follows the last colon of a word, unless it is quoted.
  local cut=''
  [[ -z $quote && $word == *:* && $COMP_WORDBREAKS == *:* ]] && cut=${word%"${word##*:}"}
  COMPREPLY=()
  mapfile -t candidates < <("${words[0]}" complete -- "${words[@]:1}" 2> /dev/null)
  for candidate in "${candidates[@]}"; do
    if [[ $candidate == @files ]]; then
      compopt -o filenames
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
    else
      [[ $candidate == */ || $candidate == *= ]] && compopt -o nospace
      candidate=${candidate#"$cut"}
      [[ -n $quote ]] || candidate=$(printf '%q' "$candidate")
      COMPREPLY+=("$candidate")
    fi
  done
}
complete -F _spate spate
