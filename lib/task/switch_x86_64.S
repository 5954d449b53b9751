/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * See task_switch.h. System V ABI: a call preserves rbx, rbp, r12 to r15, the control bits of
 * mxcsr, and the x87 control word. Loading mxcsr and the x87 control word is expensive, so they are
 * loaded only when they differ, because a task has changed its rounding or its exceptions. The
 * status flags in mxcsr need not be preserved and are not compared.
 *
 * A switch ends with ret. When the resumed context was suspended in the same place as this one, as
 * waiting tasks are, the return address is the one that the processor predicts.
 *
 * Indirect branch tracking (CET) is supported, shadow stacks are not. The note at the end declares
 * that, and the kernel does not enable shadow stacks for a program that links this file.
 */

#define FRAME 64 /* sizeof(struct task_frame) */
#define MXCSR_CONTROL 0xffc0

/* Offsets in a frame, from its upper end, which is the CFA of task_switch(). */
	.macro	cfi_frame
	.cfi_def_cfa %rsp, FRAME
	.cfi_offset %rbp, -16
	.cfi_offset %rbx, -24
	.cfi_offset %r12, -32
	.cfi_offset %r13, -40
	.cfi_offset %r14, -48
	.cfi_offset %r15, -56
	.endm

/* Push the registers that a call preserves, and store the address of the frame in *save (%rdi). */
	.macro	save_context
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	leaq	-8(%rsp), %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
	movq	%rsp, (%rdi)
	.endm

	.text

/* void task_switch(void **save, void *resume) */
	.globl	task_switch
	.hidden	task_switch
	.type	task_switch, @function
	.balign	64
task_switch:
	.cfi_startproc
	endbr64
	save_context
	movl	(%rsp), %eax
	movzwl	4(%rsp), %ecx
resume:
	/* The resumed context's frame has the same layout, so the CFI directives stay valid. */
	movq	%rsi, %rsp
	xorl	(%rsp), %eax
	testl	$MXCSR_CONTROL, %eax
	jnz	2f
	cmpw	4(%rsp), %cx
	jne	2f
1:
	leaq	8(%rsp), %rsp
	.cfi_remember_state
	.cfi_adjust_cfa_offset -8
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
2:
	.cfi_restore_state
	ldmxcsr	(%rsp)
	fldcw	4(%rsp)
	jmp	1b
	.cfi_endproc
	.size	task_switch, . - task_switch

/* void task_call_on(void *context, void (*fn)(void *arg), void *arg) */
	.globl	task_call_on
	.hidden	task_call_on
	.type	task_call_on, @function
	.balign	16
task_call_on:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	.cfi_remember_state
	/* From here on, for the unwinder, the caller is the caller of task_switch() there. */
	movq	%rdi, %rsp
	cfi_frame
	movq	%rdx, %rdi
	call	*%rsi
	movq	%rbp, %rsp
	.cfi_restore_state
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size	task_call_on, . - task_call_on

/*
 * void task_begin(void **save, void *top, void *(*fn)(void *arg), void *arg, const void *like)
 *
 * fn returns here, and the context that it returns is resumed. The call of fn is paired with its
 * return, and the call of task_begin() with the ret that resumes the caller, so the processor's
 * return stack stays in step.
 */
	.globl	task_begin
	.hidden	task_begin
	.type	task_begin, @function
	.balign	16
task_begin:
	.cfi_startproc
	endbr64
	save_context
	movl	(%rsp), %eax
	movzwl	4(%rsp), %r9d
	xorl	(%r8), %eax
	testl	$MXCSR_CONTROL, %eax
	jnz	3f
	cmpw	4(%r8), %r9w
	jne	3f
4:
	movq	%rsi, %rsp
	.cfi_def_cfa %rsp, 8
	.cfi_undefined %rip	/* the outermost frame */
	xorl	%ebp, %ebp
	movq	%rcx, %rdi
	call	*%rdx
	stmxcsr	-8(%rsp)
	fnstcw	-4(%rsp)
	movq	%rax, %rsi
	movl	-8(%rsp), %eax
	movzwl	-4(%rsp), %ecx
	jmp	resume
3:
	ldmxcsr	(%r8)
	fldcw	4(%r8)
	jmp	4b
	.cfi_endproc
	.size	task_begin, . - task_begin

	.section .note.GNU-stack, "", @progbits

	.section .note.gnu.property, "a"
	.balign	8
	.long	4, 16, 5	/* name length, descriptor length, NT_GNU_PROPERTY_TYPE_0 */
	.asciz	"GNU"
	.long	0xc0000002, 4	/* GNU_PROPERTY_X86_FEATURE_1_AND */
	.long	1, 0		/* IBT, padding */
