# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of leat-tune for bash: commands, options, and, from the running processes, names of
# settings and measurements, and values after "=".

_leat_tune()
{
	local line=${COMP_LINE:0:COMP_POINT} cur prev command what part i
	local -a words where=()

	# Split at spaces only: bash itself would also split names at "=" and ":".
	read -ra words <<<"$line"
	case $line in
	*' ') cur='' ;;
	*)
		cur=${words[-1]}
		unset 'words[-1]'
		;;
	esac
	prev=${words[-1]}
	command=
	for ((i = 1; i < ${#words[@]}; i++)); do
		case ${words[i]} in
		--tune-dir | --pid | --program)
			[ $((i + 1)) -lt ${#words[@]} ] && where+=("${words[i]}" "${words[i + 1]}")
			i=$((i + 1))
			;;
		-*) ;;
		*) [ -n "$command" ] || command=${words[i]} ;;
		esac
	done

	COMPREPLY=()
	case $prev in
	--tune-dir)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--pid) what=pids ;;
	--program) what=programs ;;
	--for | --interval | --count | --listen | -n) return ;;
	*)
		case $command:$cur in
		:* | *:-*) what=options ;;
		list:*) what=objects ;;
		get:* | watch:*) what=names ;;
		set:*) what=settings ;;
		*)
			compopt -o default
			return
			;;
		esac
		;;
	esac

	if [ "$what" = options ]; then
		mapfile -t COMPREPLY < <(compgen \
			-W "$("${words[0]}" complete options "$command" 2>/dev/null)" -- "$cur")
		return
	fi
	mapfile -t COMPREPLY < <("${words[0]}" complete "$what" "$cur" "${where[@]}" 2>/dev/null)
	if [ "$what" = settings ] && [[ $cur != *=* ]]; then
		compopt -o nospace
		COMPREPLY=("${COMPREPLY[@]/%/=}")
	fi
	# bash replaces only the part after its last word break: cut off the part before.
	part=$cur
	for i in = :; do
		[[ $COMP_WORDBREAKS == *$i* ]] || part=${part//$i/}
	done
	if [[ $part == *[=:]* ]]; then
		part=${cur%"${cur##*[=:]}"}
		COMPREPLY=("${COMPREPLY[@]#"$part"}")
	fi
}

complete -F _leat_tune leat-tune
