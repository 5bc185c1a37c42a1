; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

declare float @__nv_fabsf(float)

declare float @__nv_fmaf(float, float, float)

define ptx_kernel void @loop_add_broadcast_convert_fusion(ptr noalias align 256 dereferenceable(524288) %0, ptr noalias align 256 dereferenceable(524288) %1, ptr noalias align 256 dereferenceable(524288) %2, ptr noalias align 256 dereferenceable(524288) %3, ptr noalias align 256 dereferenceable(524288) %4) #0 {
  call void @llvm.nvvm.griddepcontrol.wait()
  %6 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !1
  %7 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !2
  %8 = mul i32 %6, 128
  %9 = add i32 %8, %7
  %10 = getelementptr inbounds [262144 x bfloat], ptr %1, i32 0, i32 %9
  %11 = load bfloat, ptr %10, align 2, !invariant.load !3
  %12 = fpext bfloat %11 to float
  %13 = fcmp ult float %12, f0x40FFF644
  %14 = select i1 %13, float %12, float f0x40FFF644
  %15 = fcmp ugt float %14, f0xC0FFF644
  %16 = select i1 %15, float %14, float f0xC0FFF644
  %17 = call float @__nv_fabsf(float %12)
  %18 = fcmp olt float %17, 4.000000e-04
  %19 = fmul float %16, %16
  %20 = call float @__nv_fmaf(float %19, float f0xA59F25C0, float f0x2A61337E)
  %21 = call float @__nv_fmaf(float %19, float %20, float f0xAEBD37FF)
  %22 = call float @__nv_fmaf(float %19, float %21, float f0x335C0041)
  %23 = call float @__nv_fmaf(float %19, float %22, float f0x3779434A)
  %24 = call float @__nv_fmaf(float %19, float %23, float f0x3A270DED)
  %25 = call float @__nv_fmaf(float %19, float %24, float f0x3BA059DC)
  %26 = fmul float %16, %25
  %27 = call float @__nv_fmaf(float %19, float f0x35A0D3D8, float f0x38F895D6)
  %28 = call float @__nv_fmaf(float %19, float %27, float f0x3B14AA05)
  %29 = call float @__nv_fmaf(float %19, float %28, float f0x3BA059DD)
  %30 = fdiv float %26, %29
  %31 = select i1 %18, float %16, float %30
  %32 = getelementptr inbounds [262144 x bfloat], ptr %0, i32 0, i32 %9
  %33 = load bfloat, ptr %32, align 2, !invariant.load !3
  %34 = fptrunc float %31 to bfloat
  %35 = fsub bfloat 1.000000e+00, %34
  %36 = fmul bfloat %33, %35
  %37 = fmul bfloat %36, %34
  %38 = fadd bfloat %36, %37
  %39 = getelementptr inbounds [262144 x bfloat], ptr %2, i32 0, i32 %9
  store bfloat %38, ptr %39, align 2
  %40 = getelementptr inbounds [262144 x bfloat], ptr %3, i32 0, i32 %9
  store bfloat 1.000000e+00, ptr %40, align 2
  %41 = getelementptr inbounds [262144 x bfloat], ptr %4, i32 0, i32 %9
  store bfloat %34, ptr %41, align 2
  ret void
}

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #1

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #2

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2

attributes #0 = { "nvvm.reqntid"="128,1,1" }
attributes #1 = { nounwind }
attributes #2 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 0, i32 2048}
!2 = !{i32 0, i32 128}
!3 = !{}
