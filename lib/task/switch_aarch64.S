/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * See task_switch.h. AAPCS64: a call preserves x19 to x29, the lower halves of v8 to v15, and fpcr.
 * Writing fpcr is expensive, so it is written only when it differs, because a task has changed its
 * rounding.
 *
 * Return addresses are saved unsigned or signed, as they are. A compiler that signs them (PAC) does
 * so in the frame of the calling function, with a stack pointer that is the same after the resume.
 */

#define FRAME 176 /* sizeof(struct task_frame) */
#define FP 0
#define GP 64
#define LR 144
#define FPCR 160

/* Offsets in a frame, from the stack pointer. */
	.macro	cfi_frame
	.cfi_def_cfa sp, FRAME
	.cfi_rel_offset d8, FP
	.cfi_rel_offset d9, FP + 8
	.cfi_rel_offset d10, FP + 16
	.cfi_rel_offset d11, FP + 24
	.cfi_rel_offset d12, FP + 32
	.cfi_rel_offset d13, FP + 40
	.cfi_rel_offset d14, FP + 48
	.cfi_rel_offset d15, FP + 56
	.cfi_rel_offset x19, GP
	.cfi_rel_offset x20, GP + 8
	.cfi_rel_offset x21, GP + 16
	.cfi_rel_offset x22, GP + 24
	.cfi_rel_offset x23, GP + 32
	.cfi_rel_offset x24, GP + 40
	.cfi_rel_offset x25, GP + 48
	.cfi_rel_offset x26, GP + 56
	.cfi_rel_offset x27, GP + 64
	.cfi_rel_offset x28, GP + 72
	.cfi_rel_offset x29, LR
	.cfi_rel_offset x30, LR + 8
	.endm

/* Push the running context, and store its address in *save (x0). Leaves its fpcr in x9. */
	.macro	save
	sub	sp, sp, #FRAME
	.cfi_adjust_cfa_offset FRAME
	stp	d8, d9, [sp, #FP]
	stp	d10, d11, [sp, #FP + 16]
	stp	d12, d13, [sp, #FP + 32]
	stp	d14, d15, [sp, #FP + 48]
	stp	x19, x20, [sp, #GP]
	stp	x21, x22, [sp, #GP + 16]
	stp	x23, x24, [sp, #GP + 32]
	stp	x25, x26, [sp, #GP + 48]
	stp	x27, x28, [sp, #GP + 64]
	stp	x29, x30, [sp, #LR]
	cfi_frame
	mrs	x9, fpcr
	str	x9, [sp, #FPCR]
	mov	x10, sp
	str	x10, [x0]
	.endm

	.text

/* void task_switch(void **save, void *resume) */
	.globl	task_switch
	.hidden	task_switch
	.type	task_switch, %function
	.balign	64
task_switch:
	.cfi_startproc
	hint	#34		/* bti c */
	save
resume:
	/* The resumed context's frame has the same layout, so the CFI directives stay valid. */
	mov	sp, x1
	ldr	x10, [sp, #FPCR]
	cmp	x9, x10
	b.ne	2f
1:
	ldp	d8, d9, [sp, #FP]
	ldp	d10, d11, [sp, #FP + 16]
	ldp	d12, d13, [sp, #FP + 32]
	ldp	d14, d15, [sp, #FP + 48]
	ldp	x19, x20, [sp, #GP]
	ldp	x21, x22, [sp, #GP + 16]
	ldp	x23, x24, [sp, #GP + 32]
	ldp	x25, x26, [sp, #GP + 48]
	ldp	x27, x28, [sp, #GP + 64]
	ldp	x29, x30, [sp, #LR]
	add	sp, sp, #FRAME
	.cfi_remember_state
	.cfi_def_cfa sp, 0
	.cfi_same_value d8
	.cfi_same_value d9
	.cfi_same_value d10
	.cfi_same_value d11
	.cfi_same_value d12
	.cfi_same_value d13
	.cfi_same_value d14
	.cfi_same_value d15
	.cfi_restore x19
	.cfi_restore x20
	.cfi_restore x21
	.cfi_restore x22
	.cfi_restore x23
	.cfi_restore x24
	.cfi_restore x25
	.cfi_restore x26
	.cfi_restore x27
	.cfi_restore x28
	.cfi_restore x29
	.cfi_restore x30
	ret
2:
	.cfi_restore_state
	msr	fpcr, x10
	b	1b
	.cfi_endproc
	.size	task_switch, . - task_switch

/* void task_call_on(void *context, void (*fn)(void *arg), void *arg) */
	.globl	task_call_on
	.hidden	task_call_on
	.type	task_call_on, %function
	.balign	16
task_call_on:
	.cfi_startproc
	hint	#34		/* bti c */
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov	x29, sp
	.cfi_def_cfa_register x29
	.cfi_remember_state
	/* From here on, for the unwinder, the caller is the caller of task_switch() there. */
	mov	sp, x0
	cfi_frame
	mov	x0, x2
	blr	x1
	mov	sp, x29
	.cfi_restore_state
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
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
	.type	task_begin, %function
	.balign	16
task_begin:
	.cfi_startproc
	hint	#34		/* bti c */
	save
	ldr	x10, [x4, #FPCR]
	cmp	x9, x10
	b.ne	3f
4:
	mov	sp, x1
	.cfi_def_cfa sp, 0
	.cfi_undefined x30	/* the outermost frame */
	mov	x29, xzr
	mov	x0, x3
	blr	x2
	mov	x1, x0
	mrs	x9, fpcr
	b	resume
3:
	msr	fpcr, x10
	b	4b
	.cfi_endproc
	.size	task_begin, . - task_begin

	.section .note.GNU-stack, "", %progbits

	.section .note.gnu.property, "a"
	.balign	8
	.word	4, 16, 5	/* name length, descriptor length, NT_GNU_PROPERTY_TYPE_0 */
	.asciz	"GNU"
	.word	0xc0000000, 4	/* GNU_PROPERTY_AARCH64_FEATURE_1_AND */
	.word	3, 0		/* BTI and PAC, padding */
