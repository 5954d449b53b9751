/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * uint64_t with_registers(void **save, void *resume, uint64_t v): fills the callee-saved registers,
 * switches, and adds up what is in them: 6 v; something else if one of d8 to d15, x25 to x28 is not
 * what it was.
 */
	.text
	.globl	with_registers
	.type	with_registers, %function
with_registers:
	stp	x29, x30, [sp, #-176]!
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mov	x19, x2
	add	x20, x2, #1
	add	x21, x2, #2
	add	x22, x2, #3
	add	x23, x2, #4
	add	x24, x2, #5
	add	x25, x2, #6
	add	x26, x2, #7
	add	x27, x2, #8
	add	x28, x2, #9
	fmov	d8, x19
	fmov	d9, x20
	fmov	d10, x21
	fmov	d11, x22
	fmov	d12, x23
	fmov	d13, x24
	fmov	d14, x25
	fmov	d15, x26
	bl	task_switch
	add	x0, x19, x20
	add	x0, x0, x21
	add	x0, x0, x22
	add	x0, x0, x23
	add	x0, x0, x24
	sub	x0, x0, #15
	.macro	same reg, from, add
	sub	x9, \reg, \from
	sub	x9, x9, #\add
	add	x0, x0, x9
	.endm
	same	x25, x19, 6
	same	x26, x19, 7
	same	x27, x19, 8
	same	x28, x19, 9
	.macro	same_d reg, from
	fmov	x9, \reg
	sub	x9, x9, \from
	add	x0, x0, x9
	.endm
	same_d	d8, x19
	same_d	d9, x20
	same_d	d10, x21
	same_d	d11, x22
	same_d	d12, x23
	same_d	d13, x24
	same_d	d14, x25
	same_d	d15, x26
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	ldp	x29, x30, [sp], #176
	ret
	.size	with_registers, . - with_registers

	.section .note.GNU-stack, "", %progbits
