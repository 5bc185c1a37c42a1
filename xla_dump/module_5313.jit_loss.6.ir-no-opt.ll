; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @loop_transpose_fusion(ptr noalias align 256 dereferenceable(524288) %0, ptr noalias align 256 dereferenceable(524288) %1) #0 {
  call void @llvm.nvvm.griddepcontrol.wait()
  %3 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !1
  %4 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !2
  %5 = udiv i32 %3, 2
  %6 = urem i32 %5, 4
  %7 = mul i32 %6, 65536
  %8 = urem i32 %3, 2
  %9 = mul i32 %8, 128
  %10 = add i32 %7, %9
  %11 = udiv i32 %3, 8
  %12 = mul i32 %11, 256
  %13 = add i32 %10, %12
  %14 = add i32 %13, %4
  %15 = getelementptr inbounds [262144 x bfloat], ptr %0, i32 0, i32 %14
  %16 = load bfloat, ptr %15, align 2, !invariant.load !3
  %17 = mul i32 %3, 128
  %18 = add i32 %17, %4
  %19 = getelementptr inbounds [262144 x bfloat], ptr %1, i32 0, i32 %18
  store bfloat %16, ptr %19, align 2
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
