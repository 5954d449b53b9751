/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * uint64_t with_registers(void **save, void *resume, uint64_t v): fills the callee-saved registers,
 * switches, and adds up what is in them: 6 v.
 */
	.text
	.globl	with_registers
	.type	with_registers, @function
with_registers:
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	subq	$8, %rsp
	movq	%rdx, %rbx
	leaq	1(%rdx), %rbp
	leaq	2(%rdx), %r12
	leaq	3(%rdx), %r13
	leaq	4(%rdx), %r14
	leaq	5(%rdx), %r15
	call	task_switch
	leaq	-15(%rbx,%rbp), %rax
	addq	%r12, %rax
	addq	%r13, %rax
	addq	%r14, %rax
	addq	%r15, %rax
	addq	$8, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	ret
	.size	with_registers, . - with_registers

	.section .note.GNU-stack, "", @progbits
