; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

declare float @__nv_fabsf(float) local_unnamed_addr

declare float @__nv_fmaf(float, float, float) local_unnamed_addr

define ptx_kernel void @loop_add_broadcast_convert_fusion(ptr noalias nofree readonly align 256 captures(none) dereferenceable(524288) %0, ptr noalias nofree readonly align 256 captures(none) dereferenceable(524288) %1, ptr noalias nofree writeonly align 256 captures(none) dereferenceable(524288) %2, ptr noalias nofree writeonly align 256 captures(none) dereferenceable(524288) %3, ptr noalias nofree writeonly align 256 captures(none) dereferenceable(524288) %4) local_unnamed_addr #0 {
  %6 = addrspacecast ptr %1 to ptr addrspace(1)
  %7 = addrspacecast ptr %0 to ptr addrspace(1)
  %8 = addrspacecast ptr %2 to ptr addrspace(1)
  %9 = addrspacecast ptr %3 to ptr addrspace(1)
  %10 = addrspacecast ptr %4 to ptr addrspace(1)
  tail call void @llvm.nvvm.griddepcontrol.wait()
  %11 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !2
  %12 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !3
  %13 = shl nuw nsw i32 %11, 7
  %14 = or disjoint i32 %13, %12
  %15 = zext nneg i32 %14 to i64
  %16 = getelementptr inbounds [2 x i8], ptr addrspace(1) %6, i64 %15
  %17 = load bfloat, ptr addrspace(1) %16, align 2, !invariant.load !4
  %18 = fpext bfloat %17 to float
  %.inv = fcmp oge float %18, f0x40FFF644
  %19 = select i1 %.inv, float f0x40FFF644, float %18
  %.inv1 = fcmp ole float %19, f0xC0FFF644
  %20 = select i1 %.inv1, float f0xC0FFF644, float %19
  %21 = tail call float @__nv_fabsf(float %18)
  %22 = fcmp olt float %21, 4.000000e-04
  %23 = fmul float %20, %20
  %24 = tail call float @__nv_fmaf(float %23, float f0xA59F25C0, float f0x2A61337E)
  %25 = tail call float @__nv_fmaf(float %23, float %24, float f0xAEBD37FF)
  %26 = tail call float @__nv_fmaf(float %23, float %25, float f0x335C0041)
  %27 = tail call float @__nv_fmaf(float %23, float %26, float f0x3779434A)
  %28 = tail call float @__nv_fmaf(float %23, float %27, float f0x3A270DED)
  %29 = tail call float @__nv_fmaf(float %23, float %28, float f0x3BA059DC)
  %30 = fmul float %20, %29
  %31 = tail call float @__nv_fmaf(float %23, float f0x35A0D3D8, float f0x38F895D6)
  %32 = tail call float @__nv_fmaf(float %23, float %31, float f0x3B14AA05)
  %33 = tail call float @__nv_fmaf(float %23, float %32, float f0x3BA059DD)
  %34 = fdiv float %30, %33
  %35 = select i1 %22, float %20, float %34
  %36 = getelementptr inbounds [2 x i8], ptr addrspace(1) %7, i64 %15
  %37 = load bfloat, ptr addrspace(1) %36, align 2, !invariant.load !4
  %38 = fptrunc float %35 to bfloat
  %39 = fsub bfloat 1.000000e+00, %38
  %40 = fmul bfloat %37, %39
  %41 = fmul bfloat %40, %38
  %42 = fadd bfloat %40, %41
  %43 = getelementptr inbounds [2 x i8], ptr addrspace(1) %8, i64 %15
  store bfloat %42, ptr addrspace(1) %43, align 2
  %44 = getelementptr inbounds [2 x i8], ptr addrspace(1) %9, i64 %15
  store bfloat 1.000000e+00, ptr addrspace(1) %44, align 2
  %45 = getelementptr inbounds [2 x i8], ptr addrspace(1) %10, i64 %15
  store bfloat %38, ptr addrspace(1) %45, align 2
  ret void
}

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #1

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #2

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2

attributes #0 = { "nvvm.reqntid"="128,1,1" }
attributes #1 = { nounwind }
attributes #2 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0, !1}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 4, !"nvvm-reflect-ftz", i32 0}
!2 = !{i32 0, i32 2048}
!3 = !{i32 0, i32 128}
!4 = !{}
