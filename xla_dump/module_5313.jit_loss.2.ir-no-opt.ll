; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @loop_dynamic_slice_fusion(ptr noalias align 256 dereferenceable(1048576) %0, ptr noalias align 256 dereferenceable(32) %1, ptr noalias align 256 dereferenceable(4) %2, ptr noalias align 256 dereferenceable(524288) %3) #0 {
  call void @llvm.nvvm.griddepcontrol.wait()
  %5 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !1
  %6 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !2
  %7 = udiv i32 %5, 2
  %8 = getelementptr inbounds [1 x i32], ptr %2, i32 0, i32 0
  %9 = load i32, ptr %8, align 4, !invariant.load !3
  %10 = call i32 @llvm.umin.i32(i32 %9, i32 7)
  %11 = getelementptr inbounds [8 x i32], ptr %1, i32 0, i32 %10
  %12 = load i32, ptr %11, align 4, !invariant.load !3
  %13 = call i32 @llvm.smin.i32(i32 %12, i32 1024)
  %14 = call i32 @llvm.smax.i32(i32 %13, i32 0)
  %15 = add i32 %7, %14
  %16 = urem i32 %5, 2
  %17 = mul i32 %16, 128
  %18 = mul i32 %15, 256
  %19 = add i32 %17, %18
  %20 = add i32 %19, %6
  %21 = getelementptr inbounds [524288 x bfloat], ptr %0, i32 0, i32 %20
  %22 = load bfloat, ptr %21, align 2, !invariant.load !3
  %23 = mul i32 %5, 128
  %24 = add i32 %23, %6
  %25 = getelementptr inbounds [262144 x bfloat], ptr %3, i32 0, i32 %24
  store bfloat %22, ptr %25, align 2
  ret void
}

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #1

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #2

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2

; Function Attrs: nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare i32 @llvm.umin.i32(i32, i32) #3

; Function Attrs: nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare i32 @llvm.smin.i32(i32, i32) #3

; Function Attrs: nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare i32 @llvm.smax.i32(i32, i32) #3

attributes #0 = { "nvvm.reqntid"="128,1,1" }
attributes #1 = { nounwind }
attributes #2 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #3 = { nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 0, i32 2048}
!2 = !{i32 0, i32 128}
!3 = !{}
